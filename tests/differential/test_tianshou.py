"""Updates of DQN, C51 and Rainbow equal those of Tianshou with the same weights and transitions."""

import copy
from dataclasses import replace
from typing import Any

import gymnasium
import numpy as np
import pytest
import torch
from torch import Tensor, nn

from accel_rl.algos.c51 import C51
from accel_rl.algos.dqn import DQN
from accel_rl.algos.rainbow import Rainbow
from accel_rl.replays.config import ReplayConfig
from accel_rl.replays.ring import NStep
from tests.algos.streams import ACTIONS, B, Stream
from tests.differential.ours import Ours, of, transitions

pytestmark = pytest.mark.slow
tianshou = pytest.importorskip("tianshou", reason="needs the extra `bench`")

GAMMA = 0.97
ACTION_SPACE = gymnasium.spaces.Discrete(ACTIONS)


class Network(nn.Module):
    """A network of accel_rl with Tianshou's call signature. With `probabilities`, the outputs are the atoms'
    probabilities."""

    def __init__(self, network: nn.Module, probabilities: bool = False):
        super().__init__()
        self.network, self.probabilities = network, probabilities

    def forward(self, obs: Any, state: Any = None, info: Any = None) -> tuple[Tensor, Any]:
        out = self.network(torch.as_tensor(np.asarray(obs)))
        return (out.softmax(-1) if self.probabilities else out), state


def with_target(algorithm: Any, target: nn.Module) -> Any:
    """Set the target network of a Tianshou algorithm, and prevent the first update from overwriting it."""
    lagged = algorithm.model_old
    (lagged if isinstance(lagged, Network) else lagged.module).network.load_state_dict(target.state_dict())
    algorithm._iter = 1
    return algorithm


def filled(stream: Stream) -> tuple[Any, np.ndarray]:
    """Return a buffer of Tianshou that contains a stream, and the index [T, B] of each cell in the buffer."""
    from tianshou.data import Batch, VectorReplayBuffer

    rows = stream.T * stream.rollouts
    buffer = VectorReplayBuffer(rows * B, B)
    index = np.zeros((rows, B), np.int64)
    for t in range(rows):
        over = stream.ended[t] | stream.terminated[t]  # A lost life ends a return, as the end of an episode does.
        following = torch.where(stream.ended[t][:, None], stream.final_frames[t], stream.frames[t + 1])
        added = Batch(
            obs=stream.frames[t].numpy(), act=stream.action[t].numpy(), rew=stream.reward[t].double().numpy(),
            terminated=stream.terminated[t].numpy(), truncated=(over & ~stream.terminated[t]).numpy(),
            obs_next=following.numpy(), info=[{}] * B,
        )  # fmt: skip
        index[t] = buffer.add(added)[0]
    return buffer, index


@pytest.mark.parametrize(("n_step", "double"), [(1, False), (1, True), (3, False)])
def test_tianshou_dqn(n_step, double, same):
    """DQN updates with squared errors are compared, because Tianshou's Huber loss ignores importance weights.

    Tianshou's loss is the squared error, and ours is half the squared error.
    """
    from tianshou.algorithm import DQN as Peer
    from tianshou.algorithm.modelfree.dqn import DiscreteQLearningPolicy
    from tianshou.algorithm.optim import AdamOptimizerFactory

    ours = Ours(DQN, DQN.Config(
        gamma=GAMMA, n_step=n_step, double=double, huber=0.0, optimizer="adam", optimizer_eps=1e-8,
        learning_rate=1e-3, hidden=(32,),
    ))  # fmt: skip
    batch, stream = transitions(NStep(n_step, GAMMA, 0.0))
    network = copy.deepcopy(ours.model)
    policy = DiscreteQLearningPolicy(model=Network(network), action_space=ACTION_SPACE)
    peer = with_target(
        Peer(policy=policy, optim=AdamOptimizerFactory(1e-3), gamma=GAMMA, n_step_return_horizon=n_step,
             target_update_freq=1000, is_double=double),
        ours.algo.target,
    )  # fmt: skip
    buffer, index = filled(stream)
    t, b = batch.cell.numpy() // B, batch.cell.numpy() % B
    chosen = index[t, b]
    weight = torch.rand(len(t), generator=torch.Generator().manual_seed(1)) + 0.5
    batch = replace(batch, weight=weight)
    taken = peer._preprocess_batch(buffer[chosen], buffer, chosen)
    taken.weight = weight / 2
    loss = ours.update(batch)
    found = peer._update_with_batch(taken)
    same("loss", loss, found.loss)
    same("gradient", ours.gradients(), of(network.named_parameters(), grad=True))
    same("next weights", ours.weights(), of(network.named_parameters()))


@pytest.mark.parametrize("cls", [C51, Rainbow])
def test_tianshou_distributional(cls, same):
    """Tianshou's C51 and Rainbow are always double, and add 1e-8 to each probability before the logarithm.

    Rainbow's 3-step batch comes from accel_rl's replay, because Tianshou's buffer returns only 1-step targets for
    distributions.
    """
    from tianshou.algorithm import C51 as PeerC51
    from tianshou.algorithm import RainbowDQN
    from tianshou.algorithm.modelfree.c51 import C51Policy
    from tianshou.algorithm.optim import AdamOptimizerFactory
    from tianshou.data import Batch

    replay = ReplayConfig(prioritized=cls is Rainbow)
    ours = Ours(cls, cls.Config(
        gamma=GAMMA, double=True, atoms=21, v_min=-4.0, v_max=4.0, hidden=(32,), learning_rate=1e-3, clip_grad_norm=0.0,
        optimizer="adam", optimizer_eps=0.01, batch_size=32, replay=replay,
    ))  # fmt: skip
    n = ours.algo.config.n_step
    batch, _ = transitions(NStep(n, GAMMA, 0.0))
    batch = replace(batch, weight=torch.rand(len(batch.r_t), generator=torch.Generator().manual_seed(1)) + 0.5)
    network = copy.deepcopy(ours.model)
    policy = C51Policy(
        model=Network(network, probabilities=True), action_space=ACTION_SPACE, num_atoms=21, v_min=-4.0, v_max=4.0
    )
    made = (PeerC51 if cls is C51 else RainbowDQN)(
        policy=policy, optim=AdamOptimizerFactory(1e-3, eps=0.01 / 32), gamma=GAMMA, target_update_freq=1000
    )
    peer = with_target(made, ours.algo.target)
    returns = batch.r_t[:, None] + batch.discount_t[:, None] * policy.support
    taken = Batch(
        obs=batch.obs_tm1.numpy(), act=batch.a_tm1.numpy(), obs_next=batch.obs_t.numpy(), returns=returns.detach(),
        weight=batch.weight, info=[None] * len(returns),
    )  # fmt: skip
    loss = ours.update(batch)
    found = peer._update_with_batch(taken)
    same("loss", loss, found.loss)
    same("gradient", ours.gradients(), of(network.named_parameters(), grad=True))
    same("next weights", ours.weights(), of(network.named_parameters()))
