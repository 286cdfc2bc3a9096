"""EnvPool's calls on the emulator."""

import gymnasium
import numpy as np
import pytest

pytest.importorskip("accel_rl.emulator._core")

from accel_rl.compat import envpool
from accel_rl.emulator import VectorEnv
from accel_rl.emulator.games import task_game
from accel_rl.text.errors import ConfigError


def actions(t: int, n: int = 3) -> np.ndarray:
    return np.random.default_rng(t).integers(0, 4, n)


def test_games_are_those_of_the_vector_environment() -> None:
    envs = envpool.make("Breakout-v5", env_type="gymnasium", num_envs=3, seed=5, max_episode_steps=40)
    plain = VectorEnv("breakout", 3, reward_clipping=False, max_num_frames_per_episode=160)
    obs, info = envs.reset()
    np.testing.assert_array_equal(obs, plain.reset(seed=5)[0])
    assert len(envs) == 3 and info["elapsed_step"].tolist() == [0, 0, 0]
    elapsed = 0
    for t in range(100):
        obs, reward, terminated, truncated, info = envs.step(actions(t))
        wanted = plain.step(actions(t))
        for ours, theirs in zip((obs, reward, terminated, truncated), wanted[:4], strict=True):
            np.testing.assert_array_equal(ours, theirs)
        elapsed = 0 if elapsed == 40 else elapsed + 1
        assert info["elapsed_step"].tolist() == [elapsed] * 3 and reward.dtype == np.float32
    envs.close()


def test_a_lost_life_ends_an_episode_and_the_game_goes_on() -> None:
    envs = envpool.make("Breakout-v5", env_type="gymnasium", num_envs=3, seed=1, episodic_life=True, reward_clip=True)
    plain = VectorEnv("breakout", 3, reward_clipping=False)
    envs.reset()
    lives = plain.reset(seed=1)[1]["lives"]
    lost, ended, over, points = np.zeros(3, bool), 0, 0, 0.0
    new = np.zeros(3, bool)
    for t in range(600):
        chosen = actions(t)
        obs, reward, terminated, _, info = envs.step(chosen)
        theirs = plain.step(np.where(lost, 1, chosen))  # FIRE
        np.testing.assert_array_equal(obs, theirs[0])
        np.testing.assert_array_equal(reward, np.sign(theirs[1]))
        np.testing.assert_array_equal(info["reward"], theirs[1])
        lost = (theirs[4]["lives"] < lives) & ~theirs[2] & ~new
        np.testing.assert_array_equal(terminated, lost | theirs[2])
        np.testing.assert_array_equal(info["terminated"], theirs[2])
        lives, new = theirs[4]["lives"], theirs[2]
        ended, over, points = ended + int(terminated.sum()), over + int(theirs[2].sum()), points + float(reward.sum())
    assert ended > over > 0 and points > 0
    envs.close()


def test_without_episodic_life_no_action_is_replaced() -> None:
    envs = envpool.make_gymnasium("Breakout-v5", num_envs=2, seed=1)
    plain = VectorEnv("breakout", 2, reward_clipping=False)
    envs.reset()
    plain.reset(seed=1)
    for t in range(300):
        np.testing.assert_array_equal(envs.step(actions(t, 2))[0], plain.step(actions(t, 2))[0])
    envs.close()


def test_environments_are_named_in_any_order() -> None:
    """Each environment's game is a function of its seed and its actions alone."""
    envs = envpool.make("Pong-v5", env_type="gymnasium", num_envs=4, batch_size=2, num_threads=2, seed=3)
    alone = [VectorEnv("pong", 1, reward_clipping=False) for _ in range(4)]
    for i, env in enumerate(alone):
        env.reset(seed=3 + i)
    steps = [0] * 4
    envs.async_reset()
    for _ in range(60):
        obs, _, _, _, info = envs.recv()
        ids = info["env_id"]
        for k, i in enumerate(ids):
            if steps[i]:
                np.testing.assert_array_equal(obs[k], alone[i].step(np.array([(steps[i] + i) % 6]))[0][0])
            steps[i] += 1
        turned = ids[::-1]
        envs.send(np.array([(steps[i] + i) % 6 for i in turned]), turned)
    assert min(steps) > 1
    envs.recv()
    with pytest.raises(ValueError, match="different environments"):
        envs.send(np.zeros(2, int), np.array([0, 0]))
    envs.close()


def test_two_batches_are_in_flight() -> None:
    """One batch is played while the actions of another are computed; each game is as if it were played alone."""
    envs = envpool.make("Pong-v5", env_type="gymnasium", num_envs=8, batch_size=2, num_threads=2, seed=3)
    alone = [VectorEnv("pong", 1, reward_clipping=False) for _ in range(8)]
    steps = [0] * 8
    waiting: list[np.ndarray] = []
    for i, env in enumerate(alone):
        env.reset(seed=3 + i)
    envs.async_reset()
    for t in range(80):
        obs, _, _, _, info = envs.recv()
        for k, i in enumerate(info["env_id"]):
            if steps[i]:
                np.testing.assert_array_equal(obs[k], alone[i].step(np.array([(steps[i] + i) % 6]))[0][0])
            steps[i] += 1
        waiting.append(info["env_id"])
        if t % 3:  # Up to three batches wait for their actions.
            ids = waiting.pop(0)
            envs.send(np.array([(steps[i] + i) % 6 for i in ids]), ids)
            if len(waiting) > 1:
                ids = waiting.pop()
                envs.send(np.array([(steps[i] + i) % 6 for i in ids]), ids)
    assert min(steps) > 1
    while True:  # Only so many batches can be received.
        try:
            envs.recv()
        except gymnasium.error.NoAsyncCallError:
            break
    envs.close()


def test_a_part_of_the_games_plays_a_step() -> None:
    envs = envpool.make("Pong-v5", env_type="gymnasium", num_envs=4, num_threads=1, seed=3)
    alone = [VectorEnv("pong", 1, reward_clipping=False) for _ in range(4)]
    for i, env in enumerate(alone):
        env.reset(seed=3 + i)
    envs.reset()
    for t in range(40):
        ids = np.array([[3, 1], [0, 2], [2, 3]][t % 3], np.int32)
        obs, _, _, _, info = envs.step(np.array([(t + i) % 6 for i in ids]), ids)
        assert info["env_id"].tolist() == ids.tolist() and info["lives"].shape == (2,)
        for k, i in enumerate(ids):
            np.testing.assert_array_equal(obs[k], alone[i].step(np.array([(t + i) % 6]))[0][0])
    envs.close()


def test_calls_of_gym_are_those_of_its_version() -> None:
    gym = pytest.importorskip("gym")
    envs = envpool.make("Pong-v5", env_type="gym", num_envs=2)
    first, after = envs.reset(), envs.step(np.zeros(2, int))
    assert isinstance(envs.action_space, gym.spaces.Discrete)
    if gym.__version__ >= "0.26":
        assert first[0].shape == (2, 4, 84, 84) and len(after) == 5
    else:
        assert first.shape == (2, 4, 84, 84) and len(after) == 4 and after[3]["TimeLimit.truncated"].shape == (2,)
    envs.close()


def test_some_games_are_reset_and_the_others_continue() -> None:
    envs, twin = (envpool.make_gymnasium("Breakout-v5", num_envs=4, seed=1, episodic_life=True) for _ in range(2))
    envs.reset()
    twin.reset()
    for t in range(30):
        envs.step(actions(t, 4))
        twin.step(actions(t, 4))
    obs, info = envs.reset(np.array([3, 1]))
    assert obs.shape == (2, 4, 84, 84) and info["env_id"].tolist() == [3, 1] and info["elapsed_step"].tolist() == [0, 0]
    ours, theirs = envs.step(actions(0, 4)), twin.step(actions(0, 4))
    np.testing.assert_array_equal(ours[0][[0, 2]], theirs[0][[0, 2]])
    assert ours[4]["elapsed_step"].tolist() == [31, 1, 31, 1]
    for wrong in (np.array([4]), np.array([-1]), np.array([0.5])):
        with pytest.raises(ValueError, match="env_id"):
            envs.reset(wrong)
    envs.close()
    twin.close()


def test_the_spec_has_the_options_and_spaces() -> None:
    envs = envpool.make_gymnasium("Pong-v5", num_envs=3, max_episode_steps=100, mode=1, difficulty=1)
    spec = envpool.make_spec("Pong-v5", num_envs=3, max_episode_steps=100, mode=1, difficulty=1)
    assert envs.spec == spec and spec.config.max_episode_steps == 100 and envs.num_envs == spec.config.num_envs == 3
    assert spec.action_space == envs.action_space and spec.observation_space == envs.observation_space
    envs.close()
    assert len(envpool.list_all_envs()) == 82 and "MsPacman-v5" in envpool.list_all_envs()


def test_bad_arguments_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"task 'Pnog-v5': must be a game.*Pong"):
        envpool.make("Pnog-v5", env_type="gymnasium")
    with pytest.raises(ConfigError, match=r"noop_mx: must be one of .*noop_max"):
        envpool.make("Pong-v5", env_type="gymnasium", noop_mx=3)
    with pytest.raises(ConfigError, match="use_inter_area_resize=False: must be True"):
        envpool.make("Pong-v5", env_type="gymnasium", use_inter_area_resize=False)
    with pytest.raises(ConfigError, match="env_type='dm'"):
        envpool.make("Pong-v5", env_type="dm")
    with pytest.raises(ConfigError, match="grayscale=False"):
        envpool.make("Pong-v5", env_type="gymnasium", gray_scale=False)


def test_games_are_found_by_the_ids_of_others() -> None:
    names = ("MsPacman-v5", "MsPacmanNoFrameskip-v4", "ALE/MsPacman-v5", "accel_rl/MsPacman-v5", "ms_pacman")
    assert {task_game(name) for name in names} == {"ms_pacman"}
