"""An environment of a VectorEnv of several games gives the same results as in a VectorEnv of only its game."""

import copy
from typing import Any

import numpy as np
import pytest

pytest.importorskip("accel_rl.emulator._core")

from accel_rl.emulator import VectorEnv
from accel_rl.text.errors import ConfigError
from tests.marks import slow

GAMES = ("pong", "breakout", "seaquest")
N = 7


def make(game: str, n: int, **options: Any) -> VectorEnv:
    return VectorEnv(game, n, repeat_action_probability=0.25, max_num_frames_per_episode=160, **options)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"autoreset_mode": "SameStep", "render_mode": "rgb_array"},
        slow({"episodic_life": True, "num_threads": 1}),
        slow({"obs_type": "rgb"}),
        slow({"obs_type": "ram"}),
    ],
)  # fmt: skip
def test_each_environment_equals_that_of_its_game(options):
    env = make("pong, breakout, seaquest", N, **options)
    alone = [make(GAMES[i % 3], 1, full_action_space=True, **options) for i in range(N)]
    assert env.single_action_space.n == 18 and env.options.games == list(GAMES)
    obs, info = env.reset(seed=3)
    assert info["game"].tolist() == [0, 1, 2, 0, 1, 2, 0] and info["game"].dtype == np.int32
    for i, one in enumerate(alone):
        np.testing.assert_array_equal(one.reset(seed=3 + i)[0][0], obs[i])
    draw, ends = np.random.default_rng(0), 0
    for _ in range(70):
        actions = draw.integers(18, size=N)
        obs, *results, info = env.step(actions)
        for i, one in enumerate(alone):
            their_obs, *theirs, their_info = one.step(actions[[i]])
            np.testing.assert_array_equal(their_obs[0], obs[i])
            assert [x[0] for x in theirs] == [x[i] for x in results]
            assert "game" not in their_info and their_info["lives"][0] == info["lives"][i]
            if "final_obs" in their_info:
                np.testing.assert_array_equal(their_info["final_obs"][0], info["final_obs"][i])
        ends += int(results[1].sum() + results[2].sum())
    assert ends >= N
    if env.render_mode:
        for i, one in enumerate(alone):
            np.testing.assert_array_equal(one.render()[0], env.render()[i])
    for i, one in enumerate(alone):
        np.testing.assert_array_equal(one.ale(0).getScreenRGB(), env.ale(i).getScreenRGB())


def test_several_games_have_continuous_actions():
    envs = VectorEnv("pong,breakout", 4, continuous=True, use_fire_reset=True)
    envs.reset(seed=0)
    assert envs.action_space.shape == (4, 3) and envs.step(envs.action_space.sample())[4]["game"].tolist() == [
        0,
        1,
        0,
        1,
    ]


def test_copies_states_and_parts_of_a_batch():
    env = make("pong,breakout", 4)
    env.reset(seed=1)
    twin, actions = copy.deepcopy(env), np.arange(4)
    np.testing.assert_array_equal(env.step(actions)[0], twin.step(actions)[0])
    states = env.clone_state()
    with pytest.raises(ValueError, match="another ROM"):
        env.restore_state(states[:1], indices=[1])
    arrived = make("pong,breakout", 4, batch_size=2)
    _, info = arrived.reset(seed=1)
    assert (info["game"] == info["env_id"] % 2).all()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"game": "pong,brekout"}, "game='brekout'.*nearest: breakout"),
        ({"game": "pong,"}, "game=''"),
        ({"game": "pong,pong"}, "names a game twice"),
        ({"game": "pong,skiing"}, "skiing has other actions than pong"),
        ({"game": "pong,breakout", "num_envs": 1}, "num_envs=1: must be at least 2, one for each game"),
        ({"game": "pong,breakout", "mode": 9}, "mode=9 is not one of pong's"),
        ({"game": "pong,breakout", "rom": "x.bin"}, "needs a single game"),
    ],
)
def test_bad_games(settings, message):
    with pytest.raises(ConfigError, match=message) as error:
        VectorEnv(**{"num_envs": 4} | settings)
    assert "\n" not in str(error.value)
