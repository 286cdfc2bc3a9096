"""Losses, gradients and value targets equal those of TorchRL's modules with the same weights and batch."""

import copy
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from accel_rl.algos.a2c import A2C
from accel_rl.algos.c51 import C51
from accel_rl.algos.dqn import DQN
from accel_rl.algos.ppo import PPO
from accel_rl.ops.returns import generalized_advantage, vtrace
from accel_rl.replays.ring import NStep
from tests.algos.streams import ACTIONS, B
from tests.differential.ours import POLICY, Ours, T, of, policy_and_value, renamed, rollout, transitions

pytestmark = pytest.mark.slow
torchrl = pytest.importorskip("torchrl", reason="needs the extra `bench`")

GAMMA, LAMBDA = 0.97, 0.9


def actor_and_critic(networks: nn.ModuleDict) -> tuple[Any, Any]:
    from tensordict.nn import TensorDictModule
    from torch.distributions import Categorical
    from torchrl.modules import ProbabilisticActor, ValueOperator

    logits = TensorDictModule(networks["policy"], in_keys=["observation"], out_keys=["logits"])
    actor = ProbabilisticActor(logits, in_keys=["logits"], distribution_class=Categorical, return_log_prob=True)
    return actor, ValueOperator(networks["value"], in_keys=["observation"])


def policy_data(ours: Ours, r: Any) -> Any:
    """Return all cells (t, b) of a rollout in TorchRL's format, with the advantages and value targets of accel_rl."""
    from tensordict import TensorDict

    ours.algo.ingest(r)
    advantage = ours.algo.samples.advantage.reshape(-1, 1)
    value = r.recorded["value"].reshape(-1, 1)
    return TensorDict(
        {
            "observation": r.observations(0, T), "action": r.action.reshape(-1), "advantage": advantage,
            "value_target": advantage + value, "state_value": value,
            "action_log_prob": r.recorded["log_prob"].reshape(-1),
        },
        batch_size=[T * B],
    )  # fmt: skip


def step_theirs(module: nn.Module, loss: Tensor, optimizer: torch.optim.Optimizer, max_norm: float) -> None:
    loss.backward()
    if max_norm:
        nn.utils.clip_grad_norm_(module.parameters(), max_norm)
    optimizer.step()


def test_torchrl_a2c(same):
    from torchrl.objectives import A2CLoss

    ours = Ours(A2C, A2C.Config(
        gamma=GAMMA, gae_lambda=LAMBDA, value_coefficient=0.5, entropy_coefficient=0.01, clip_grad_norm=0.5,
        learning_rate=7e-4, learning_rate_scaling="none", optimizer="rmsprop-torch", optimizer_eps=1e-5,
    ))  # fmt: skip
    networks, r = policy_and_value(ours.model), rollout(ours)
    objective = A2CLoss(*actor_and_critic(networks), entropy_coeff=0.01, critic_coeff=0.5, loss_critic_type="l2",
                        functional=False)  # fmt: skip
    data = policy_data(ours, r)
    found = objective(data)
    total = found["loss_objective"] + found["loss_critic"] + found["loss_entropy"]
    step_theirs(networks, total, torch.optim.RMSprop(networks.parameters(), 7e-4, alpha=0.99, eps=1e-5), 0.5)
    (loss,) = [ours.update(batch) for batch in ours.algo.batches()]
    same("loss", loss, total)
    same("gradient", renamed(ours.gradients(), POLICY), of(networks.named_parameters(), grad=True))
    same("next weights", renamed(ours.weights(), POLICY), of(networks.named_parameters()))


@pytest.mark.parametrize("normalize", ["minibatch", "none"])
def test_torchrl_ppo(normalize, same):
    from torchrl.objectives import ClipPPOLoss

    ours = Ours(PPO, PPO.Config(
        gamma=GAMMA, gae_lambda=LAMBDA, epochs=3, minibatch=T * B, clip=0.1, value_coefficient=0.5,
        entropy_coefficient=0.01, clip_grad_norm=0.5, learning_rate=3e-3, learning_rate_schedule="constant",
        normalize_advantage=normalize,
    ))  # fmt: skip
    networks, r = policy_and_value(ours.model), rollout(ours)
    objective = ClipPPOLoss(
        *actor_and_critic(networks), clip_epsilon=0.1, entropy_coeff=0.01, critic_coeff=0.5, loss_critic_type="l2",
        normalize_advantage=normalize == "minibatch", functional=False,
    )  # fmt: skip
    data, optimizer = policy_data(ours, r), torch.optim.Adam(networks.parameters(), 3e-3, eps=1e-5)
    for batch in ours.algo.batches():
        found = objective(data.clone())
        total = found["loss_objective"] + found["loss_critic"] + found["loss_entropy"]
        optimizer.zero_grad()
        step_theirs(networks, total, optimizer, 0.5)
        loss = ours.update(batch)
    same("loss", loss, total)
    same("gradient", renamed(ours.gradients(), POLICY), of(networks.named_parameters(), grad=True))
    same("next weights", renamed(ours.weights(), POLICY), of(networks.named_parameters()))


def replay_data(batch: Any) -> Any:
    """Return a batch of one-step transitions in TorchRL's format. A step with discount 0 is `terminated`."""
    from tensordict import TensorDict

    ended = (batch.discount_t == 0)[:, None]
    after = {"observation": batch.obs_t, "reward": batch.r_t[:, None], "terminated": ended, "done": ended}
    return TensorDict({"observation": batch.obs_tm1, "action": batch.a_tm1, "next": after}, batch_size=[len(batch.r_t)])


@pytest.mark.parametrize("double", [False, True])
def test_torchrl_dqn(double, same):
    from torchrl.modules import QValueActor
    from torchrl.objectives import DQNLoss, ValueEstimators

    ours = Ours(DQN, DQN.Config(
        gamma=GAMMA, double=double, optimizer="adam", optimizer_eps=1e-8, learning_rate=1e-3, hidden=(32,)
    ))  # fmt: skip
    batch, _ = transitions(NStep(1, GAMMA, 0.0))
    network = copy.deepcopy(ours.model)
    actor = QValueActor(network, in_keys=["observation"], action_space="categorical")
    objective = DQNLoss(
        actor, loss_function="smooth_l1", delay_value=True, double_dqn=double, action_space="categorical"
    )
    objective.make_value_estimator(ValueEstimators.TD0, gamma=GAMMA)
    _set_target(objective, ours.algo.target)
    found = objective(replay_data(batch))["loss"]
    parameters = dict(objective.value_network_params.flatten_keys(".").items())
    named = {name.removeprefix("module.0.module."): p for name, p in parameters.items() if isinstance(p, nn.Parameter)}
    step_theirs(objective, found, torch.optim.Adam(named.values(), 1e-3), 0)
    same("loss", ours.update(batch), found)
    same("gradient", ours.gradients(), of(_like(named, ours.model).items(), grad=True))
    same("next weights", ours.weights(), of(_like(named, ours.model).items()))


class LogProbabilities(nn.Module):
    """Module that computes the log-probabilities [N, Z, A] of the atoms of a `CategoricalQNetwork`."""

    def __init__(self, network: nn.Module):
        super().__init__()
        self.network = network

    def forward(self, obs: Tensor) -> Tensor:
        return self.network(obs).log_softmax(-1).transpose(-1, -2)


def test_torchrl_c51(same):
    """TorchRL's C51 is always double: the online network selects the next action."""
    from torchrl.modules import DistributionalQValueActor
    from torchrl.objectives import DistributionalDQNLoss

    ours = Ours(C51, C51.Config(
        gamma=GAMMA, double=True, atoms=21, v_min=-4.0, v_max=4.0, hidden=(32,), learning_rate=1e-3,
        optimizer="adam", optimizer_eps=0.01, batch_size=32,
    ))  # fmt: skip
    batch, _ = transitions(NStep(1, GAMMA, 0.0))
    network = LogProbabilities(copy.deepcopy(ours.model))
    actor = DistributionalQValueActor(
        network, in_keys=["observation"], support=ours.model.support, action_space="categorical"
    )
    objective = DistributionalDQNLoss(actor, gamma=GAMMA, delay_value=True)
    _set_target(objective, ours.algo.target)
    found = objective(replay_data(batch))["loss"]
    parameters = dict(objective.value_network_params.flatten_keys(".").items())
    named = {n: p for n, p in parameters.items() if isinstance(p, nn.Parameter)}
    step_theirs(objective, found, torch.optim.Adam(named.values(), 1e-3, eps=0.01 / 32), 0)
    same("loss", ours.update(batch), found)
    same("gradient", ours.gradients(), of(_like(named, ours.model).items(), grad=True))
    same("next weights", ours.weights(), of(_like(named, ours.model).items()))


def _like(named: dict[str, nn.Parameter], model: nn.Module) -> dict[str, nn.Parameter]:
    """Rename parameters such as "module.0.layers.0.weight" to the names in `model`, such as "layers.0.weight"."""
    return {name: next(p for n, p in named.items() if n.endswith(name)) for name, _ in model.named_parameters()}


def _set_target(objective: Any, target: nn.Module) -> None:
    values = dict(target.named_parameters())
    for name, x in objective.target_value_network_params.flatten_keys(".").items():
        for own, p in values.items():
            if name.endswith(own):
                x.data.copy_(p)


def test_torchrl_gae(same):
    from torchrl.objectives.value.functional import generalized_advantage_estimate

    ours = Ours(A2C, A2C.Config(gamma=GAMMA))
    r = rollout(ours)
    ours.algo.ingest(r)
    value, bootstrap = r.recorded["value"], ours.algo.agent.value(r.observations(T))
    next_value = ours.algo.next_value(r, value, bootstrap)
    advantage = generalized_advantage(
        r.reward, value, ours.algo.discount(r), bootstrap, next_value, LAMBDA, cut=r.truncated
    )
    columns = (value, next_value, r.reward, r.terminated | r.truncated, r.terminated)
    found, target = generalized_advantage_estimate(GAMMA, LAMBDA, *(x[..., None] for x in columns), time_dim=0)
    same("advantage", advantage, found[..., 0])
    same("value target", advantage + value, target[..., 0])


def test_torchrl_vtrace(same):
    """No episode of the test ends by a time limit, because TorchRL applies the ratio pi / mu at t + 1 across limits."""
    from torchrl.objectives.value.functional import vtrace_advantage_estimate

    g = torch.Generator().manual_seed(0)
    value, reward = torch.randn(T + 1, B, generator=g), torch.randn(T, B, generator=g)
    log_mu = -torch.rand(T, B, generator=g) * ACTIONS
    log_pi = log_mu + 0.5 * torch.randn(T, B, generator=g)
    ended = torch.rand(T, B, generator=g) < 0.15
    discount = GAMMA * (~ended).float()
    ours = vtrace(log_pi - log_mu, reward, discount, value[:-1], value[1:])
    columns = (log_pi, log_mu, value[:-1], value[1:], reward, ended, ended)
    found, found_target = vtrace_advantage_estimate(GAMMA, *(x[..., None] for x in columns), time_dim=0)
    same("value target", ours.target, found_target[..., 0])
    same("advantage", ours.advantage, found[..., 0])
