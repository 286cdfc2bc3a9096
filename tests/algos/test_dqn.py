"""Epsilons of optimizers, defaults and impossible settings of Q-learning.

The equations of Q-learning are tested in test_options.py.
"""

from dataclasses import replace

import pytest
import torch

from accel_rl.algos.btr import BTR, BTRConfig
from accel_rl.algos.c51 import C51, C51Config
from accel_rl.algos.dqn import DQN, DQNConfig
from accel_rl.algos.rainbow import Rainbow, RainbowConfig
from accel_rl.distributed.communicator import SingleProcess
from accel_rl.optim.flat import FlatParameters
from accel_rl.papers import stooke
from accel_rl.replays.config import ReplayConfig
from accel_rl.settings.resolved import resolve
from accel_rl.settings.train import default_config
from accel_rl.text.errors import ConfigError
from tests.algos import made_up

SMALL = ReplayConfig(size=600, start=60)


def learner(cls, config, seed=0):
    torch.manual_seed(seed)
    algo = cls(config, made_up.SPEC, T=made_up.T, B=made_up.B)
    flat = FlatParameters(algo.agent.model)
    algo.begin()
    with torch.no_grad():  # Let the target network differ from the online network.
        for p in algo.target.parameters():
            p.add_(0.03 * torch.randn(p.shape))
    for i in range(6):
        made_up.ingest(algo, made_up.rollout(seed=i))
    return algo, flat


def lasagne_rmsprop(grads, rate, rho, epsilon=1e-6):
    """Lasagne's RMSProp in float64: accu <- rho accu + (1 - rho) g^2; step = rate g / sqrt(accu + eps)."""
    accu = torch.zeros_like(grads[0], dtype=torch.float64)
    for g in grads:
        accu = rho * accu + (1 - rho) * g.double() ** 2
        yield rate * g.double() / (accu + epsilon).sqrt()


@pytest.mark.parametrize("batch_size", [64, 256, 1_024])
def test_rmsprops_epsilon_is_the_same_at_all_batch_sizes(batch_size):
    """Updates with the settings of figure 9 of Stooke & Abbeel 2018 equal those of Lasagne's RMSProp.

    The gradients are about 1e-4, so that the square of a gradient is a hundredth of RMSProp's epsilon.
    """
    config = stooke.optimizers(optimizer="rmsprop", batch_size=batch_size, learning_rate=2.5e-4)
    algo = C51(replace(config.algo, replay=SMALL), made_up.SPEC, T=made_up.T, B=made_up.B)
    optimizer, data = algo.build_optimizer(100), torch.zeros(100)
    grads = [1e-4 * torch.randn(100, generator=torch.Generator().manual_seed(i)) for i in range(5)]
    for g, expected in zip(grads, lasagne_rmsprop(grads, 2.5e-4, config.algo.rmsprop_alpha), strict=True):
        before = data.clone()
        optimizer.step(data, g, 2.5e-4)
        torch.testing.assert_close((before - data).double(), expected, atol=1e-9, rtol=1e-3)


@pytest.mark.parametrize(("cls", "config", "published"), [(C51, C51Config, 0.01), (Rainbow, RainbowConfig, 0.005)])
def test_adams_epsilon_is_divided_by_the_batch(cls, config, published):
    """Adam's epsilon is divided by the batch size as in Stooke & Abbeel 2018, section 5.4.1."""
    for batch_size in (32, 2_048):
        for optimizer in ("adam", "adam-epsilon-hat"):
            settings = config(replay=SMALL, batch_size=batch_size, optimizer=optimizer)
            algo = cls(settings, made_up.SPEC, T=made_up.T, B=made_up.B)
            assert algo.build_optimizer(10).epsilon == published / batch_size


class OfServer(SingleProcess):
    """A communicator that reports the number of updates of all learners, `made`, instead of this learner's own
    number."""

    made = 0

    def updates(self, own):
        return self.made


def test_schedules_follow_the_updates_of_all_learners():
    """Epsilon and the copies of the target network depend on the updates of all learners (Nair et al. 2015, section
    5.1)."""
    config = DQNConfig(
        replay=SMALL, batch_size=32, intensity=4, target_interval=100, target_unit="updates", epsilon_unit="updates",
        epsilon_steps=1000, epsilon_final=0.1,
    )  # fmt: skip
    algo, _ = learner(DQN, config)
    algo.communicator = server = OfServer()
    copied, update = [], algo.target_network.update
    algo.target_network.update = lambda: (copied.append(server.made), update())
    for server.made, epsilon in ((0, 1.0), (1, 0.9991), (90, 0.919), (130, 0.883), (140, 0.874), (350, 0.685)):
        made_up.ingest(algo, made_up.rollout(seed=server.made))
        assert algo.agent.epsilon == pytest.approx(epsilon)
        n = sum(1 for _ in algo.phase())
        assert n <= 100 - server.made % 100
    assert copied == [0, 130, 350], "once in each interval of 100"
    assert algo.schedules(0.0, 10**6)["epsilon"] == pytest.approx(0.685), "env steps do not count"
    again, _ = learner(DQN, config)
    again.load_state_dict(algo.state_dict())
    again.communicator, again.target_network.update = server, algo.target_network.update
    made_up.ingest(again, made_up.rollout(seed=1))
    list(again.phase())
    assert copied == [0, 130, 350], "a resumed learner does not copy again"


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"replay": ReplayConfig(size=10, start=20)}, "--replay.start 20: must be at most --replay.size 10"),
        ({"replay": ReplayConfig(device="tpu", start=0)}, "--replay.device tpu"),
        ({"replay": ReplayConfig(size=10**12, start=0)}, "too much; give --replay.size"),
        ({"replay": ReplayConfig(size=40, start=0)}, "too small"),
        ({"batch_size": 700, "replay": SMALL}, "--algo.batch-size 700: must be at most"),
    ],
)
def test_impossible_settings_are_one_line(settings, message):
    config = DQNConfig(**settings)
    with pytest.raises(ConfigError, match=message.replace(".", r"\.")) as e:
        config.check()
        config.check_sampling(5, 6)
        config.check_spec(made_up.SPEC, "cpu")
    assert "\n" not in str(e.value)


@pytest.mark.parametrize(
    ("settings", "env_steps", "decay"),
    [
        (DQNConfig(), 1_500_000, 150_000),
        (DQNConfig(), 50_000_000, 1_000_000),
        (RainbowConfig(), 500_000, 50_000),
        (RainbowConfig(), 1_000_000, 62_500),
        (DQNConfig(epsilon_steps=7), 1_500_000, 7),
        (DQNConfig(epsilon_steps=0), 1_500_000, 0),
        # 1.5 M env steps at intensity 8 are 375,000 updates on batches of 32.
        (DQNConfig(epsilon_unit="updates"), 1_500_000, 37_500),
    ],
)
def test_epsilon_falls_in_a_tenth_of_the_run_by_default(settings, env_steps, decay):
    name = "rainbow" if isinstance(settings, RainbowConfig) else "dqn"
    default = default_config(name)
    env = replace(default.env, game="pong")
    config = resolve(replace(default, env=env, algo=settings, env_steps=env_steps))
    assert config.algo.epsilon_steps == config.algo.decay_steps == decay


def test_the_horizon_follows_from_the_batch():
    assert DQNConfig(batch_size=32).horizon(16) == 2
    assert DQNConfig(batch_size=512).horizon(16) == 4
    assert DQNConfig(batch_size=2048).horizon(32) == 8


def test_btrs_epsilon_decays_exponentially_and_ends():
    """In the code of Clark et al. 2024, each transition multiplies epsilon - 0.01 by 1 - 1 / 2,000,000."""
    algo = BTR(
        BTRConfig(replay=ReplayConfig(size=600_000, start=200_000, prioritized=True)),
        made_up.SPEC,
        T=made_up.T,
        B=made_up.B,
    )
    assert [algo.schedules(0.0, step)["epsilon"] for step in (0, 199_999, 25_000_000, 40_000_000)] == [1, 1, 0, 0]
    for step in (200_000, 1_000_000, 4_000_000, 24_000_000):
        expected = 0.01 + 0.99 * (1 - 1 / 2_000_000) ** step
        assert algo.schedules(0.0, step)["epsilon"] == pytest.approx(expected, rel=1e-4)
