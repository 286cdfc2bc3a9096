"""R2D2: sequences start from stored recurrent states, and impossible settings are refused in one line."""

import pytest
import torch

from accel_rl.algos.r2d2 import R2D2, R2D2Config
from accel_rl.api.trained_agent import TrainedPolicy
from accel_rl.envs.make import make_spec
from accel_rl.replays.config import ReplayConfig
from accel_rl.samplers.engine import EngineSetup
from accel_rl.samplers.grouping import Grouping
from accel_rl.samplers.in_process import InProcessEngine
from accel_rl.samplers.sampler import Sampler
from accel_rl.text.errors import ConfigError
from tests.env_settings import env_of
from tests.golden.runs import POLE

T, B = 4, 4  # Episodes have at most 12 steps, so that many begin and end within a sequence.
ENV = env_of(id=POLE)
CONFIG = R2D2Config(lstm=8, length=8, burn_in=4, period=8, n_step=2, replay=ReplayConfig(size=400, start=0))


def build(reset="immediate"):
    spec = make_spec(ENV, training=True)
    torch.manual_seed(0)
    algo = R2D2(CONFIG, spec, T=T, B=B)
    engine = InProcessEngine(EngineSetup(ENV, spec, Grouping(B, 2, 1), T, 0, reset=reset, decorrelation_steps=7))
    return algo, Sampler(engine, spec, 0, reset=reset)


@pytest.mark.parametrize("reset", ["immediate", "wait"])
def test_the_state_that_learning_computes_is_that_of_acting(reset):
    """If the network is unrolled from a stored recurrent state, its state after one period equals the next stored
    state."""
    algo, sampler = build(reset)
    algo.begin()
    algo.agent.epsilon = 0.3
    ended = 0
    for _ in range(20):
        rollout = sampler.collect(algo.agent)
        ended += int(rollout.ended.sum())
        algo.store(rollout)
    ring, period = algo.replay.ring, CONFIG.period
    low, high = ring.eligible
    assert high - low >= 6 and ended > 10
    batch = ring.batch(torch.arange(low * B, (high - 1) * B), torch.ones((high - 1 - low) * B))
    with torch.no_grad():
        obs, first, last = batch.observations(0, period), batch.age[:period] == 0, batch.last()
        _, after = algo.agent.model.unroll(obs, first, batch.state, last[:period])
    following = ring.states[low + 1 : high].flatten(0, 1)
    torch.testing.assert_close(after[-1], following[:, :-2], rtol=1e-5, atol=1e-6)
    # The network does not read the previous action and reward at an episode's first step.
    begun = batch.age[period] > 0
    torch.testing.assert_close(last[period][begun], following[begun, -2:])


def test_a_policy_in_a_users_loop_acts_as_in_the_sampler():
    algo, sampler = build()
    agent = algo.agent.evaluating(greedy=True)
    policy = TrainedPolicy(agent, sampler.spec)
    reward = None
    for _ in range(8):
        r = sampler.collect(agent)
        for t in range(T):
            assert torch.equal(policy.act(r.observations(t), r.age[t] == 0, reward), r.action[t])
            reward = r.reward[t].clone()
    with pytest.raises(ValueError, match="reads its last reward"):
        policy.act(r.observations(0))
    policy.reset()
    policy.act(r.observations(0))


@pytest.mark.parametrize(
    ("change", "line"),
    [
        ({"period": 6}, "--algo.period 6: must be a multiple of --sampler.horizon 4"),
        (
            {"replay": ReplayConfig(size=100, start=0)},
            "--replay.size 100: too small for 4 environments x 4 steps; at least 168",
        ),
    ],
)
def test_impossible_settings_are_one_line(change, line):
    with pytest.raises(ConfigError, match=line):
        R2D2Config(**{**vars(CONFIG), **change}).check_sampling(T, B)


@pytest.mark.parametrize(("B", "period", "horizon"), [(16, 40, 40), (256, 40, 20), (8, 6, 6), (2_000, 40, 2)])
def test_the_horizon_divides_the_period(B, period, horizon):
    assert R2D2Config(period=period).horizon(B) == horizon
