"""The games' Gymnasium ids pass Gymnasium's checkers."""

import subprocess
import sys
import warnings

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env
from gymnasium.vector.utils import batch_space

import accel_rl
from accel_rl.emulator.games import vector_games
from accel_rl.gym import env_id
from tests.marks import slow

GAMES = vector_games()
gymnasium.register_envs(accel_rl.gym)


def test_ids_are_those_of_ale_py():
    import ale_py

    gymnasium.register_envs(ale_py)
    for game in GAMES:
        ours, theirs = (gymnasium.spec(i) for i in (env_id(game), env_id(game).replace("accel_rl/", "ALE/")))
        assert {k: theirs.kwargs[k] for k in ours.kwargs} == ours.kwargs


def test_make_vec_is_the_vector_env():
    envs = gymnasium.make_vec("accel_rl/Breakout-v5", num_envs=3, noop_max=1, repeat_action_probability=0.0)
    assert isinstance(envs.unwrapped, accel_rl.VectorEnv) and envs.num_envs == 3
    obs, info = envs.reset(seed=1)
    assert obs.shape == (3, 4, 84, 84) and obs in envs.observation_space and set(info) >= {"lives"}
    obs, reward, *_ = envs.step(envs.action_space.sample())
    assert obs.shape == (3, 4, 84, 84) and reward.shape == (3,)
    envs.close()


def test_one_game_plays_as_one_of_several():
    env, envs = gymnasium.make("accel_rl/Pong-v5"), gymnasium.make_vec("accel_rl/Pong-v5", num_envs=2)
    obs, _ = env.reset(seed=5)
    many, _ = envs.reset(seed=5)
    assert np.array_equal(obs, many[0])
    for action in np.random.default_rng(0).integers(6, size=300):
        obs, reward, terminated, _, _ = env.step(int(action))
        many, rewards, ended, _, _ = envs.step(np.array([action, 0]))
        assert np.array_equal(obs, many[0]) and (reward, terminated) == (rewards[0], ended[0])
    env.close()
    envs.close()


each_game = pytest.mark.parametrize("game", ["pong", "ms_pacman", *(slow(g) for g in GAMES)])


@each_game
def test_gymnasiums_checker_is_clean(game):
    env = gymnasium.make(env_id(game))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check_env(env.unwrapped, skip_render_check=True)
    env.close()


@each_game
@pytest.mark.parametrize("mode", ["NextStep", "SameStep", "Disabled"])
def test_the_rules_of_gymnasiums_vector_environments_are_kept(game, mode):
    """Spaces, types, seeds, wrappers and ends follow gymnasium.vector's rules. Episodes end after 8 steps."""
    made = [
        gymnasium.make_vec(env_id(game), num_envs=2, autoreset_mode=mode, max_num_frames_per_episode=32)
        for _ in range(2)
    ]
    envs = gymnasium.wrappers.vector.RecordEpisodeStatistics(made[0])
    assert envs.metadata["autoreset_mode"].value == mode
    assert envs.observation_space == batch_space(envs.single_observation_space, 2)
    assert envs.action_space == batch_space(envs.single_action_space, 2)
    envs.action_space.seed(1)
    results = [env.reset(seed=3) for env in (envs, made[1])]
    assert np.array_equal(results[0][0], results[1][0]) and results[0][0] in envs.observation_space
    ends = 0
    for t in range(1, 12):
        actions = envs.action_space.sample()
        results = [env.step(actions) for env in (envs, made[1])]
        for one, other in zip(*(result[:4] for result in results), strict=True):
            assert np.array_equal(one, other)
        obs, reward, terminated, truncated, info = results[0]
        assert obs in envs.observation_space and reward.shape == (2,)
        assert terminated.dtype == truncated.dtype == bool and terminated.shape == truncated.shape == (2,)
        for key, value in info.items():
            assert key.startswith("_") or key == "episode" or isinstance(value, dict) or len(value) == 2, key
        ended = terminated | truncated
        assert ended.all() == (t == 8), t
        if ended.any():
            ends += 1
            assert "_final_obs" not in info or info["_final_obs"].tolist() == ended.tolist()
            assert ("final_obs" in info) == (mode == "SameStep")
            assert info["_episode"].tolist() == ended.tolist() and info["episode"]["l"].tolist() == [8, 8]
            if mode == "Disabled":
                results = [env.reset(options={"reset_mask": ended}) for env in (envs, made[1])]
                assert np.array_equal(results[0][0], results[1][0])
        elif t == 9 and mode == "NextStep":
            assert not reward.any() and not ended.any()
    assert ends == 1
    envs.close()
    made[1].close()


@pytest.mark.parametrize("imports", ["accel_rl, gymnasium", "gymnasium, accel_rl"])
def test_the_id_is_found_from_the_package_alone(imports):
    code = f"import {imports}; gymnasium.register_envs(accel_rl.gym); gymnasium.spec('accel_rl/Pong-v5')"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=100)


def test_the_vector_environment_is_light_to_import():
    code = (
        "import sys; import numpy as np; from accel_rl.emulator import VectorEnv; envs = VectorEnv('pong', 2); "
        "envs.reset(seed=1); envs.step(np.zeros(2, int)); "
        "assert not {'torch', 'cv2', 'scipy', 'matplotlib', 'rich', 'wandb'} & set(sys.modules), sys.modules.keys()"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=100)
