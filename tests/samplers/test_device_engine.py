"""With --env.randomness counter, rollouts of the device engine equal those of other engines bit for bit."""

import functools

import numpy as np
import pytest
import torch

from accel_rl.agents.agent import RandomAgent
from accel_rl.agents.policy import CategoricalPolicyAgent
from accel_rl.emulator.counter import CACHED_STARTS, Counter
from accel_rl.envs.atari_games import ATARI_57
from accel_rl.envs.environment import pack_state, unpack_state
from accel_rl.envs.make import EnvConfig, make_spec
from accel_rl.models.actor_critic import ActorCritic
from accel_rl.samplers.device_engine import DeviceEngine
from accel_rl.samplers.device_games import DeviceGames, make_device_game
from accel_rl.samplers.engine import EngineSetup
from accel_rl.samplers.grouping import Grouping
from accel_rl.samplers.in_process import InProcessEngine
from accel_rl.samplers.sampler import Sampler
from accel_rl.samplers.workers.pool import PoolConfig, WorkerPool
from tests.env_settings import env_of
from tests.marks import slow
from tests.samplers.conftest import SMALL

pytest.importorskip("accel_rl.emulator._core")

T, B = 16, 6
CELLS = ("frames", "age", "action", "reward", "terminated", "truncated", "ended", "valid")


def counter_env(game: str, **rules: object) -> EnvConfig:
    """Return settings of an environment with counter randomness. With at most 4 no-ops, few start states are stored."""
    return env_of(game=game, randomness="counter", **{"max_episode_steps": 60, "noop_max": 4, **rules})


device_game = functools.cache(make_device_game)


def device_sampler(env: EnvConfig, seed: int = 3, groups: int = 1, reset: str = "immediate"):
    spec = make_spec(env, training=True, reset=reset)
    game = device_game(env, True, reset == "cached", "cpu")
    setup = EngineSetup(env, spec, Grouping(B, groups, 1), T, seed, decorrelation_steps=40)
    engine = DeviceEngine(setup, game.device, lambda seeds, _: DeviceGames(setup, game, seeds))
    return Sampler(engine, spec, seed, memory=engine.memory, partial_starts=True)


def in_process(env: EnvConfig, seed: int = 3, reset: str = "immediate") -> Sampler:
    spec = make_spec(env, training=True, reset=reset)
    engine = InProcessEngine(EngineSetup(env, spec, Grouping(B, 1, 1), T, seed, reset=reset, decorrelation_steps=40))
    return Sampler(engine, spec, seed, reset=reset, partial_starts=True)


def policy(env: EnvConfig) -> CategoricalPolicyAgent:
    torch.manual_seed(0)
    return CategoricalPolicyAgent(ActorCritic(make_spec(env, training=True), SMALL))


def assert_equal(expected, found, recorded_atol: float = 0.0) -> None:
    for name in CELLS:
        assert torch.equal(getattr(expected, name), getattr(found, name)), name
    assert torch.equal(expected.final_frames[expected.ended], found.final_frames[found.ended])
    for name, x in expected.recorded.items():
        torch.testing.assert_close(x, found.recorded[name], rtol=0.0, atol=recorded_atol, msg=name)


def assert_same_rollouts(env: EnvConfig, rollouts: int, reset: str = "immediate", groups: int = 1) -> None:
    agent, first, second = policy(env), in_process(env, reset=reset), device_sampler(env, reset=reset, groups=groups)
    # With two groups, batches are smaller, so that matrix products may sum in another order.
    atol = 0.0 if groups == 1 else 1e-5
    for _ in range(rollouts):
        assert_equal(first.collect(agent), second.collect(agent), atol)
        assert first.finished == second.finished
    assert first.episodes.count == second.episodes.count > 0


EIGHT = ("asterix", "breakout", "freeway", "montezuma_revenge", "ms_pacman", "pong", "robotank", "seaquest")


QUICK = ("montezuma_revenge",)  # Quick tests in tests/emulator/device play all EIGHT games.


@pytest.mark.parametrize("game", [g if g in QUICK else slow(g) for g in EIGHT])
def test_a_policys_rollouts_are_those_of_the_serial_engine(game):
    assert_same_rollouts(counter_env(game), rollouts=7)


@pytest.mark.slow
@pytest.mark.parametrize("game", [game for game in ATARI_57 if game not in EIGHT])
def test_a_policys_rollouts_in_every_other_game(game):
    assert_same_rollouts(counter_env(game), rollouts=7)


@pytest.mark.slow
@pytest.mark.parametrize("game", ["pong", "space_invaders"])
def test_sticky_actions_and_the_nature_picture(game):
    assert_same_rollouts(counter_env(game, protocol="machado2018", noop_max=30), rollouts=7)


@pytest.mark.parametrize(
    "rules",
    [
        {"frame_skip": 3, "frame": "104x80-mean"},
        *map(slow, ({"frame_skip": 3}, {"frame": "104x80-mean"}, {"frame_skip": 1}, {"mode": 2})),
    ],
)
def test_other_rules(rules):
    assert_same_rollouts(counter_env("breakout" if "mode" not in rules else "space_invaders", **rules), rollouts=7)


@pytest.mark.slow
def test_cached_starts_are_a_few_of_all():
    counter = Counter(noop_max=30, frame_skip=4, cached=True)
    assert len(counter.starts) == CACHED_STARTS and all(len(row) == 1 for row in counter.starts)
    drawn = {counter.start(seed, episode) for seed in range(40) for episode in range(20)}
    assert drawn == {row[0] for row in counter.starts}
    assert_same_rollouts(counter_env("breakout"), rollouts=7, reset="cached")


def test_starts_are_uniform_over_timers_and_noops():
    counter = Counter(noop_max=30, frame_skip=4, cached=False)
    timers, noops = zip(*(counter.start(seed, e) for seed in range(100) for e in range(100)), strict=True)
    assert set(timers) == set(range(25, 100)) and set(noops) == set(range(31))
    for values, n in ((timers, 75), (noops, 31)):
        counts = np.unique(values, return_counts=True)[1]
        chi2 = float(((counts - 10_000 / n) ** 2 / (10_000 / n)).sum())
        assert chi2 < n + 5 * np.sqrt(2 * n)


@pytest.mark.slow
def test_two_groups_are_the_same_environments():
    assert_same_rollouts(counter_env("pong"), rollouts=7, groups=2)


@pytest.mark.slow
@pytest.mark.parametrize("game", EIGHT)
def test_rollouts_are_those_of_worker_processes(game):
    env, agent = counter_env(game), policy(counter_env(game))
    spec = make_spec(env, training=True)
    setup = EngineSetup(env, spec, Grouping(B, 1, 2), T, 3, decorrelation_steps=40)
    pool = WorkerPool(setup, PoolConfig(cores=(None, None)))
    first, second = Sampler(pool, spec, 3, partial_starts=True), device_sampler(env)
    try:
        for _ in range(10):
            assert_equal(first.collect(agent), second.collect(agent))
    finally:
        first.close()


def test_an_open_loop_agent_and_idle_environments():
    env = counter_env("pong")
    agent = RandomAgent(make_spec(env, training=True).n_actions)
    first, second = in_process(env), device_sampler(env)
    for idle in (None, np.arange(B) % 2 == 0):
        first.idle = second.idle = idle
        for _ in range(3):
            a, b = first.collect(agent), second.collect(agent)
            assert_equal(a, b)
            assert b.valid.all() == (idle is None)


@pytest.mark.parametrize("at", [1, slow(5)])
def test_a_restored_sampler_continues_bit_for_bit(at):
    env = counter_env("seaquest", repeat_action_probability=0.25)
    agent, first = policy(env), device_sampler(env)
    for _ in range(at):
        first.collect(agent)
    state = first.state_dict()
    second = device_sampler(env)
    second.load_state_dict(state)
    for _ in range(6):
        assert_equal(first.collect(agent), second.collect(agent))
        assert first.finished == second.finished


@pytest.mark.parametrize("game", [slow("seaquest"), "breakout"])
@pytest.mark.parametrize("to_device", [True, slow(False)])
def test_an_engine_continues_from_the_others_state(game, to_device):
    env = counter_env(game, repeat_action_probability=0.25, life_loss_ends_return=True)
    agent = policy(env)
    first, second = (in_process(env), device_sampler(env)) if to_device else (device_sampler(env), in_process(env))
    for _ in range(3):
        first.collect(agent)
    second.load_state_dict(first.state_dict())
    for _ in range(6):
        assert_equal(first.collect(agent), second.collect(agent))
        assert first.finished == second.finished


@pytest.mark.slow
def test_a_reseeded_sampler_is_a_new_one():
    env = counter_env("pong")
    agent, first = policy(env), device_sampler(env)
    first.collect(agent)
    first.reseed(5)
    second = device_sampler(env, seed=5)
    for _ in range(3):
        assert_equal(first.collect(agent), second.collect(agent))


def test_foreign_states_are_refused():
    env = counter_env("pong")
    sampler = device_sampler(env)
    state = sampler.state_dict()
    header, inner = unpack_state(state["envs"][0])
    kind, env_bytes = unpack_state(inner)
    damaged = pack_state(header, pack_state(kind, env_bytes[:376] + bytes([255]) * len(env_bytes[376:])))
    for states in (state["envs"][:-1], [b"x", *state["envs"][1:]], [damaged, *state["envs"][1:]]):
        with pytest.raises(ValueError, match="state"):
            device_sampler(env).load_state_dict({**state, "envs": states})
    other = device_sampler(counter_env("breakout")).state_dict()
    with pytest.raises(ValueError, match="breakout"):
        sampler.load_state_dict(other)
