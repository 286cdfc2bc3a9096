"""Losses, gradients and updated weights equal those of Stable-Baselines3's `train` with the same weights and batch."""

from typing import Any

import gymnasium
import numpy as np
import pytest
import torch
from torch import nn

from accel_rl.algos.a2c import A2C
from accel_rl.algos.dqn import DQN
from accel_rl.algos.ppo import PPO
from accel_rl.data.rollout import Rollout
from accel_rl.replays.ring import NStep
from tests.algos.streams import ACTIONS, FEATURES, B
from tests.differential.ours import Ours, T, of, renamed, rollout, transitions

pytestmark = pytest.mark.slow
sb3 = pytest.importorskip("stable_baselines3", reason="needs the extra `bench`")

LAYERS = {
    "body.layers.0": "mlp_extractor.policy_net.0", "body.layers.2": "mlp_extractor.policy_net.2",
    "heads.policy": "action_net", "value_body.layers.0": "mlp_extractor.value_net.0",
    "value_body.layers.2": "mlp_extractor.value_net.2", "heads.value": "value_net",
}  # fmt: skip
GAMMA, LAMBDA = 0.97, 0.9


class Silent(gymnasium.Env):
    """An environment that is never stepped, because SB3's models need only its spaces."""

    observation_space = gymnasium.spaces.Box(-10, 10, (FEATURES,))
    action_space = gymnasium.spaces.Discrete(ACTIONS)

    def reset(self, *, seed=None, options=None):
        return np.zeros(FEATURES, np.float32), {}

    def step(self, action):
        return np.zeros(FEATURES, np.float32), 0.0, False, False, {}


def peer(cls: Any, ours: Ours, **settings: Any) -> Any:
    """Return a model of SB3 with the same architecture and weights as `ours`."""
    from stable_baselines3.common.logger import Logger
    from stable_baselines3.common.vec_env import DummyVecEnv

    networks = {"net_arch": {"pi": [64, 64], "vf": [64, 64]}, "activation_fn": nn.Tanh}
    kwargs = {**networks, **settings.pop("policy_kwargs", {})}
    model = cls("MlpPolicy", DummyVecEnv([Silent] * B), n_steps=T, device="cpu", policy_kwargs=kwargs, **settings)
    model.policy.load_state_dict(renamed(ours.weights(), LAYERS))
    model.set_logger(Logger(None, []))
    return model


def fill(model: Any, ours: Ours, r: Rollout) -> None:
    """Put a rollout into the buffer of an SB3 model as `collect_rollouts` does. At a time limit, SB3 adds the
    discounted value of the last observation to the reward, and treats the step as an episode's end."""
    t, b = torch.nonzero(r.truncated & ~r.terminated, as_tuple=True)
    reward = r.reward.clone()
    reward[t, b] += GAMMA * ours.algo.agent.value(r.final_observation(t, b))
    done = (r.terminated | r.truncated).numpy()
    starts = np.concatenate([np.ones((1, B), bool), done[:-1]])
    model.rollout_buffer.reset()
    for step in range(T):
        model.rollout_buffer.add(
            r.frames[step].numpy(), r.action[step].numpy(), reward[step].numpy(), starts[step].astype(np.float32),
            r.recorded["value"][step], r.recorded["log_prob"][step],
        )  # fmt: skip
    last = ours.algo.agent.value(r.observations(T))
    model.rollout_buffer.compute_returns_and_advantage(last_values=last, dones=done[-1])


def theirs(model: Any, grad: bool = False) -> dict[str, torch.Tensor]:
    return of(((n, p) for n, p in model.policy.named_parameters() if not n.startswith("features")), grad)


@pytest.mark.parametrize("gae_lambda", [1.0, LAMBDA])
def test_sb3_a2c(gae_lambda, same):
    """SB3's A2C is given torch's RMSprop as optimizer, because the mean square of SB3's RMSpropTFLike begins at 1
    instead of 0."""
    ours = Ours(A2C, A2C.Config(
        gamma=GAMMA, gae_lambda=gae_lambda, value_coefficient=0.5, entropy_coefficient=0.01, clip_grad_norm=0.5,
        learning_rate=7e-4, learning_rate_scaling="none", optimizer="rmsprop-torch", optimizer_eps=1e-5,
    ))  # fmt: skip
    r = rollout(ours)
    model = peer(
        sb3.A2C, ours, gamma=GAMMA, gae_lambda=gae_lambda, vf_coef=0.5, ent_coef=0.01, max_grad_norm=0.5,
        learning_rate=7e-4, use_rms_prop=False,
        policy_kwargs={"optimizer_class": torch.optim.RMSprop, "optimizer_kwargs": {"alpha": 0.99, "eps": 1e-5}},
    )  # fmt: skip
    fill(model, ours, r)
    (loss,) = ours.learn(r)
    same("advantage", ours.algo.samples.advantage, torch.from_numpy(model.rollout_buffer.advantages))
    model.train()
    logged = model.logger.name_to_value
    total = logged["train/policy_loss"] + 0.01 * logged["train/entropy_loss"] + 0.5 * logged["train/value_loss"]
    same("loss", loss, total)
    same("gradient", renamed(ours.gradients(), LAYERS), theirs(model, grad=True))
    same("next weights", renamed(ours.weights(), LAYERS), theirs(model))


@pytest.mark.parametrize("value_clip", [0.0, 0.1])
@pytest.mark.parametrize("normalize", ["minibatch", "none"])
def test_sb3_ppo(value_clip, normalize, same):
    """Three epochs of one minibatch are compared without value clipping, and one epoch with value clipping.

    SB3's value loss is the error of the clipped value, and ours is the larger error of the clipped and the unclipped
    value, as in OpenAI baselines. The losses are equal at the first update, when no value is clipped.
    """
    epochs = 1 if value_clip else 3
    ours = Ours(PPO, PPO.Config(
        gamma=GAMMA, gae_lambda=LAMBDA, epochs=epochs, minibatch=T * B, clip=0.1, value_clip=value_clip,
        value_coefficient=0.5, entropy_coefficient=0.01, clip_grad_norm=0.5, learning_rate=3e-3,
        learning_rate_schedule="constant", normalize_advantage=normalize,
    ))  # fmt: skip
    r = rollout(ours)
    model = peer(
        sb3.PPO, ours, gamma=GAMMA, gae_lambda=LAMBDA, n_epochs=epochs, batch_size=T * B, clip_range=0.1,
        clip_range_vf=value_clip or None, vf_coef=0.5, ent_coef=0.01, max_grad_norm=0.5, learning_rate=3e-3,
        normalize_advantage=normalize == "minibatch",
    )  # fmt: skip
    fill(model, ours, r)
    losses = ours.learn(r)
    model.train()
    same("loss", losses[-1], model.logger.name_to_value["train/loss"])
    same("gradient", renamed(ours.gradients(), LAYERS), theirs(model, grad=True))
    same("next weights", renamed(ours.weights(), LAYERS), theirs(model))


@pytest.mark.parametrize("n_step", [1, 3])
def test_sb3_dqn(n_step, same):
    import copy

    from stable_baselines3.common.type_aliases import ReplayBufferSamples

    ours = Ours(DQN, DQN.Config(
        gamma=GAMMA, n_step=n_step, optimizer="adam", optimizer_eps=1e-8, learning_rate=1e-3, clip_grad_norm=0.1,
        hidden=(32,),
    ))  # fmt: skip
    batch, _ = transitions(NStep(n_step, GAMMA, 0.0))
    model = sb3.DQN("MlpPolicy", Silent(), gamma=GAMMA, learning_rate=1e-3, max_grad_norm=0.1, device="cpu")
    model.policy.q_net, model.policy.q_net_target = copy.deepcopy(ours.model), copy.deepcopy(ours.algo.target)
    model._create_aliases()
    model.policy.optimizer = torch.optim.Adam(model.q_net.parameters(), 1e-3)
    from stable_baselines3.common.logger import Logger

    model.set_logger(Logger(None, []))

    class Fixed:
        @staticmethod
        def sample(*_: Any, **__: Any) -> ReplayBufferSamples:
            columns = [x[:, None] for x in (batch.a_tm1, batch.r_t, batch.discount_t)]
            return ReplayBufferSamples(
                batch.obs_tm1, columns[0], batch.obs_t, torch.zeros(len(batch.r_t), 1), columns[1], columns[2]
            )

    model.replay_buffer, model.policy.set_training_mode = Fixed, lambda mode: None
    loss = ours.update(batch)
    model.train(gradient_steps=1)
    same("loss", loss, float(model.logger.name_to_value["train/loss"]))
    same("gradient", ours.gradients(), of(model.q_net.named_parameters(), grad=True))
    same("next weights", ours.weights(), of(model.q_net.named_parameters()))
