"""Stable-Baselines3 on our vector environment."""

import numpy as np
import pytest

pytest.importorskip("accel_rl.emulator._core")
pytest.importorskip("stable_baselines3")

from accel_rl.emulator import VectorEnv
from accel_rl.emulator.sb3 import SB3VecEnv
from accel_rl.system.errors import ConfigError


def make(**settings) -> SB3VecEnv:
    return SB3VecEnv(VectorEnv("breakout", 4, autoreset_mode="SameStep", **settings), seed=1)


def test_ends_are_told_as_sb3_wants_them() -> None:
    env, plain = make(max_num_frames_per_episode=60), VectorEnv("breakout", 4, max_num_frames_per_episode=60)
    np.testing.assert_array_equal(env.reset(), plain.reset(seed=1)[0])
    # in the peer's other mode the last observation of an episode is returned as it is
    ended, length = np.zeros(4, bool), np.zeros(4, int)
    for t in range(16):
        obs, reward, done, infos = env.step(np.full(4, t % 4))
        last, _, terminated, truncated, _ = plain.step(np.full(4, t % 4))
        length += 1
        assert obs.shape == (4, 4, 84, 84) and reward.dtype == np.float32
        np.testing.assert_array_equal(done, terminated | truncated)
        for i in np.flatnonzero(done):
            np.testing.assert_array_equal(infos[i]["terminal_observation"], last[i])
            assert infos[i]["TimeLimit.truncated"] and infos[i]["episode"]["l"] == length[i]
            ended[i] = True
        if done.any():
            break
    assert ended.any()
    env.close()


def test_other_modes_are_refused() -> None:
    with pytest.raises(ConfigError, match="SameStep"):
        SB3VecEnv(VectorEnv("pong", 2))


@pytest.mark.slow
def test_ppo_trains() -> None:
    import stable_baselines3 as sb3

    env = make(episodic_life=True)
    model = sb3.PPO("CnnPolicy", env, n_steps=64, batch_size=64, n_epochs=2, seed=1, device="cpu")
    before = [p.detach().clone() for p in model.policy.parameters()]
    model.learn(2_000)
    assert model.num_timesteps >= 2_000 and len(model.ep_info_buffer) > 0
    assert any((a != b).any() for a, b in zip(before, model.policy.parameters(), strict=True))
    assert all(np.isfinite(p.detach().numpy()).all() for p in model.policy.parameters())
    env.close()
