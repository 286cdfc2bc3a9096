"""The emulator's vector environment with `info` in the format of Gymnasium 0.29."""

import numpy as np
import pytest

pytest.importorskip("accel_rl.emulator._core")

from accel_rl.compat import gymnasium_029
from accel_rl.emulator import VectorEnv


def test_ends_are_told_as_in_gymnasium_029() -> None:
    envs = gymnasium_029.make("BreakoutNoFrameskip-v4", 2, seed=7)
    plain = VectorEnv("breakout", 2, autoreset_mode="SameStep", reward_clipping=False)
    np.testing.assert_array_equal(envs.reset()[0], plain.reset(seed=7)[0])
    lives, lost = np.full(2, 5), np.zeros(2, bool)
    points, steps, games = np.zeros(2), np.zeros(2, int), 0
    for t in range(500):
        chosen = np.random.default_rng(t).integers(0, 4, 2)
        obs, reward, terminated, truncated, infos = envs.step(chosen)
        theirs = plain.step(np.where(lost, 1, chosen))
        points, steps = points + theirs[1], steps + 1
        lost = (theirs[4]["lives"] < lives) & ~theirs[2]
        lives = theirs[4]["lives"]
        np.testing.assert_array_equal(obs, theirs[0])
        np.testing.assert_array_equal(reward, np.sign(theirs[1]))
        np.testing.assert_array_equal(terminated, lost | theirs[2])
        assert ("final_info" in infos) == terminated.any() and not truncated.any()
        for i in np.flatnonzero(terminated):
            last = theirs[4]["final_obs"][i] if theirs[2][i] else obs[i]
            np.testing.assert_array_equal(infos["final_observation"][i], last)
            told = infos["final_info"][i]
            assert ("episode" in told) == theirs[2][i]
            if theirs[2][i]:
                assert told["episode"] == {"r": points[i], "l": steps[i]} and told["lives"] == 0
                points[i] = steps[i] = 0
                games += 1
        if terminated.any():
            assert all(told is None for i, told in enumerate(infos["final_info"]) if not terminated[i])
    assert games
    envs.close()


def test_a_limit_truncates() -> None:
    envs = gymnasium_029.make("pong", 1, seed=1, max_num_frames_per_episode=40)
    envs.reset()
    found = [envs.step(np.zeros(1, int)) for _ in range(10)]
    assert [bool(step[3][0]) for step in found] == [False] * 9 + [True]
    assert found[-1][4]["final_info"][0]["episode"]["l"] == 10 and "final_info" not in found[-2][4]
    envs.close()
