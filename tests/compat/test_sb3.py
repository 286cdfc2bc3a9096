"""SB3VecEnv compared with Stable-Baselines3's make_atari_env, and under SB3's wrappers and learners."""

from typing import Any

import gymnasium
import numpy as np
import pytest

pytest.importorskip("accel_rl.emulator._core")

from accel_rl.emulator import VectorEnv
from accel_rl.emulator.games import camel_case
from accel_rl.text.errors import ConfigError

pytestmark = pytest.mark.needs("stable_baselines3")


def make(game: str = "breakout", n: int = 4, **settings: Any) -> Any:
    from accel_rl.compat.sb3 import SB3VecEnv

    return SB3VecEnv(game, n, seed=1, **settings)


def make_theirs(game: str, n: int, **rules: Any) -> Any:
    import ale_py
    from stable_baselines3.common.env_util import make_atari_env

    gymnasium.register_envs(ale_py)
    return make_atari_env(f"{camel_case(game)}NoFrameskip-v4", n, seed=1, wrapper_kwargs=rules)


@pytest.mark.parametrize("rules", [{}, {"terminal_on_life_loss": False, "clip_reward": False}], ids=["train", "test"])
@pytest.mark.parametrize("game", ["space_invaders", "breakout", "pong"])
def test_the_same_actions_give_the_rewards_ends_and_scores_of_make_atari_env(game: str, rules: dict[str, Any]) -> None:
    """Initial no-ops are switched off, because SB3 draws their number from another random generator."""
    pytest.importorskip("cv2")  # SB3 resizes by OpenCV
    theirs, ours = make_theirs(game, 2, noop_max=0, **rules), make(game, 2, noop_max=0, **rules)
    assert ours.action_space.n == theirs.action_space.n
    theirs.reset()
    ours.reset()
    rng = np.random.default_rng(0)
    lives = games = 0
    for t in range(1000):
        actions = rng.integers(ours.action_space.n, size=2)
        _, their_reward, their_done, their_infos = theirs.step(actions)
        _, reward, done, infos = ours.step(actions)
        np.testing.assert_array_equal(reward, their_reward, err_msg=f"step {t}")
        np.testing.assert_array_equal(done, their_done, err_msg=f"step {t}")
        for a, b in zip(infos, their_infos, strict=True):
            assert set(a) == set(b), t
            for key in ("lives", "frame_number", "episode_frame_number", "TimeLimit.truncated"):
                assert a[key] == b[key], f"step {t}: {key}"
            if "episode" in b:
                assert (a["episode"]["r"], a["episode"]["l"]) == (b["episode"]["r"], b["episode"]["l"])
                games += 1
        lives += int(done.sum())
    assert games > 0
    assert lives > games or game == "pong" or rules
    theirs.close()
    ours.close()


def test_a_time_limit_is_reported_with_the_last_observation() -> None:
    env = make(noop_max=0, max_num_frames_per_episode=40, terminal_on_life_loss=False)
    plain = VectorEnv("breakout", 4, noop_max=0, max_num_frames_per_episode=40, use_fire_reset=False)
    plain.reset(seed=1)
    for action in (1, 2):
        seen = plain.step(np.full(4, action))[0]
    np.testing.assert_array_equal(env.reset(), seen)
    for t in range(8):
        obs, reward, done, infos = env.step(np.zeros(4, int))
        last = plain.step(np.zeros(4, int))[0]
        assert obs.shape == (4, 4, 84, 84) and reward.dtype == np.float32
        assert done.tolist() == [t == 7] * 4
    for i in range(4):
        np.testing.assert_array_equal(infos[i]["terminal_observation"], last[i])
        assert infos[i]["TimeLimit.truncated"] and infos[i]["episode"]["l"] == 40
    env.close()


@pytest.mark.parametrize("copy", [True, False])
def test_the_last_observation_of_a_life_is_kept(copy: bool) -> None:
    """The last observation before a lost life is not overwritten by later steps, nor by other environments."""
    env = make("space_invaders", 3, copy=copy)
    plain = VectorEnv("space_invaders", 3, use_fire_reset=False)
    plain.reset(seed=1)
    for action in (1, 2):
        plain.step(np.full(3, action))
    env.reset()
    rng = np.random.default_rng(0)
    for _ in range(300):
        actions = rng.integers(6, size=3)
        obs, _, done, infos = env.step(actions)
        last, _, _, _, info = plain.step(actions)
        if done.any():
            break
    assert done.any() and not done.all() and info["lives"].min() == 2
    for i in range(3):
        np.testing.assert_array_equal(infos[i]["terminal_observation"] if done[i] else obs[i], last[i])
        assert ("terminal_observation" in infos[i]) == done[i] and "episode" not in infos[i]
        assert infos[i]["lives"] == info["lives"][i]
    env.close()


def test_evaluate_policy_returns_scores_of_whole_games() -> None:
    from stable_baselines3 import PPO
    from stable_baselines3.common.evaluation import evaluate_policy

    env = make("space_invaders", 2)
    model = PPO("CnnPolicy", env, n_steps=16, batch_size=32, device="cpu", seed=1)
    scores, lengths = evaluate_policy(model, env, n_eval_episodes=2, return_episode_rewards=True, warn=True)
    assert len(scores) == 2 and all(score % 5 == 0 for score in scores) and min(lengths) > 400
    env.close()


def test_their_wrappers_see_the_rewards_of_the_agent() -> None:
    from stable_baselines3.common.vec_env import VecMonitor, VecNormalize

    with pytest.warns(UserWarning, match="already wrapped with a `Monitor`"):
        env = VecMonitor(make("space_invaders", 2))
    normal = VecNormalize(env, norm_obs=False)
    normal.reset()
    total, rng = np.zeros(2), np.random.default_rng(0)
    for _ in range(400):
        _, _, done, infos = normal.step(rng.integers(6, size=2))
        total += normal.get_original_reward()
        for i in np.flatnonzero(done):
            assert infos[i]["episode"]["r"] == total[i]
            total[i] = 0
        if done.any():
            break
    assert done.any() and normal.ret_rms.count > 1
    normal.close()


def test_the_screens_are_rendered_for_their_video_recorder() -> None:
    env = make("pong", 2, render_mode="rgb_array")
    env.reset()
    assert env.render_mode == "rgb_array" and [image.shape for image in env.get_images()] == [(210, 160, 3)] * 2
    assert env.render().size == 2 * 210 * 160 * 3
    env.close()


def test_what_does_not_fit_is_refused() -> None:
    with pytest.raises(ConfigError, match="autoreset_mode='NextStep': SB3VecEnv sets this"):
        make(autoreset_mode="NextStep")
    with pytest.raises(ConfigError, match="must be a game's name"):
        make(VectorEnv("pong", 2))
    with pytest.raises(ConfigError, match="task 'Pnog-v5'"):
        make("Pnog-v5")


@pytest.mark.slow
def test_ppo_trains() -> None:
    import stable_baselines3 as sb3

    env = make()
    model = sb3.PPO("CnnPolicy", env, n_steps=64, batch_size=64, n_epochs=2, seed=1, device="cpu")
    before = [p.detach().clone() for p in model.policy.parameters()]
    model.learn(2_000)
    assert model.num_timesteps >= 2_000 and len(model.ep_info_buffer) > 0
    assert any((a != b).any() for a, b in zip(before, model.policy.parameters(), strict=True))
    assert all(np.isfinite(p.detach().numpy()).all() for p in model.policy.parameters())
    env.close()
