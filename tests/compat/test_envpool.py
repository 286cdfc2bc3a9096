"""EnvPool's interface to the emulator."""

import importlib.util
from typing import Any

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


class Frames:
    """One game of Breakout by EnvPool's rules, played frame by frame with four frames per agent step."""

    def __init__(self, seed: int) -> None:
        options = {"frameskip": 1, "stack_num": 1, "noop_max": 0, "use_fire_reset": False, "reward_clipping": False}
        self.env = VectorEnv("breakout", 1, autoreset_mode="Disabled", **options)
        self.env.reset(seed=seed)
        self.draws = np.random.RandomState(seed)  # mt19937
        self.begin(anew=False)

    def begin(self, anew: bool) -> None:
        if anew:
            self.env.reset()
        for action in [0] * (int(self.draws.randint(0, 2**32, dtype=np.uint32)) * 30 >> 32) + [1]:
            self.env.step(np.array([action]))

    def step(self, action: int) -> tuple[int, bool]:
        """Return the points of an agent step, and whether the game is over."""
        points, over = 0, False
        for _ in range(4):
            if not over:
                _, reward, ends, _, _ = self.env.step(np.array([action]))
                points, over = points + int(reward[0]), bool(ends[0])
        return points, over


def test_games_are_those_of_envpools_rules() -> None:
    """No-ops before FIRE, lives, the step after a lost life, numbers of steps and the RAM equal those of `Frames`."""
    envs = envpool.make_gymnasium("Breakout-v5", num_envs=2, seed=5, episodic_life=True, reward_clip=True)
    _, info = envs.reset()
    frames = [Frames(5), Frames(6)]
    elapsed, lives, ended, over = [0, 0], [5, 5], [False, False], [False, False]
    lost = ends = 0
    for t in range(500):
        for i, game in enumerate(frames):
            np.testing.assert_array_equal(info["ram"][i], game.env.ale(0).getRAM())
        chosen = actions(t // 3, 2)
        _, reward, terminated, truncated, info = envs.step(chosen)
        for i, game in enumerate(frames):
            points = 0
            if ended[i]:
                game.begin(anew=over[i])
                elapsed[i], over[i], ended[i] = (0 if over[i] else elapsed[i]), False, False
            else:
                points, over[i] = game.step(int(chosen[i]))
                elapsed[i] += 1
                ended[i] = over[i] or 0 < game.env.ale(0).lives() < lives[i]
                lost, ends = lost + (ended[i] and not over[i]), ends + over[i]
            lives[i] = game.env.ale(0).lives()
            assert info["reward"][i] == points and reward[i] == np.sign(points)
        assert info["lives"].tolist() == lives and info["elapsed_step"].tolist() == elapsed
        assert terminated.tolist() == ended and info["terminated"].tolist() == over and not truncated.any()
    assert lost > 4 and ends
    envs.close()


def test_the_first_frame_fills_the_stack_of_a_game() -> None:
    envs = envpool.make_gymnasium("Breakout-v5", num_envs=3, seed=5, max_episode_steps=9)
    obs, info = envs.reset()
    for t in range(40):
        assert (t % 10 == 0) == bool((obs == obs[:, :1]).all()) and obs.any((2, 3)).all()
        obs, _, terminated, truncated, info = envs.step(actions(t))
        assert info["elapsed_step"].tolist() == [(t + 1) % 10] * 3
        assert truncated.tolist() == [t % 10 == 8] * 3 and not terminated.any()
    envs.close()


def test_after_a_lost_life_the_stack_continues() -> None:
    envs = envpool.make_gymnasium("Breakout-v5", num_envs=1, seed=1, episodic_life=True)
    before, _ = envs.reset()
    lost = False
    for t in range(200):
        obs, _, terminated, _, info = envs.step(actions(t, 1))
        if lost:
            np.testing.assert_array_equal(obs[:, :3], before[:, 1:])
            break
        before, lost = obs, bool(terminated[0])
    assert lost and not info["terminated"][0]
    envs.close()


def test_types_shapes_and_order_of_the_results() -> None:
    envs = envpool.make_gymnasium("Pong-v5", num_envs=2)
    _, info = envs.reset()
    obs, reward, terminated, truncated, later = envs.step(np.zeros(2, int))
    for infos in (info, later):
        assert list(infos) == ["env_id", "players", "lives", "reward", "terminated", "ram", "elapsed_step"]
        assert infos["players"]["env_id"].tolist() == infos["env_id"].tolist() == [0, 1]
        assert [infos[name].dtype for name in ("env_id", "lives", "reward", "terminated", "ram", "elapsed_step")] == [
            *(np.int32, np.int32, np.float32, np.int32, np.uint8, np.int32)
        ]
        assert infos["ram"].shape == (2, 128)
    assert [x.dtype for x in (obs, reward, terminated, truncated)] == [np.uint8, np.float32, np.bool_, np.bool_]
    results = envs.step({"action": np.array([1, 2]), "env_id": np.array([1, 0])})
    assert results[4]["env_id"].tolist() == [1, 0]
    envs.close()


def test_it_is_a_vector_environment_of_gymnasium() -> None:
    envs = envpool.make_gymnasium("Pong-v5", num_envs=2, max_episode_steps=5, seed=3)
    assert isinstance(envs, gymnasium.vector.VectorEnv) and not envs.closed
    recorded = gymnasium.wrappers.vector.RecordEpisodeStatistics(envs)
    with pytest.warns(UserWarning, match="seed"):
        recorded.reset(seed=1)
    lengths = [recorded.step(np.zeros(2, int))[4].get("episode", {}).get("l") for _ in range(8)]
    assert [x.tolist() for x in lengths if x is not None] == [[5, 5]]
    mask = np.array([False, True])
    assert envs.reset(options={"reset_mask": mask})[1]["env_id"].tolist() == [1]
    for wrong in ({"reset_mask": ~mask[:1]}, {"reset_mask": mask & False}, {"rest_mask": mask}):
        with pytest.raises(ValueError, match="mask"):
            envs.reset(options=wrong)
    with pytest.raises(RuntimeError, match="render_mode='rgb_array'"):
        envs.render()
    recorded.close()
    assert envs.closed


def test_each_environment_has_its_seed_of_a_list() -> None:
    envs = envpool.make_gymnasium("Breakout-v5", num_envs=3, seed=[7, 2, 7])
    plain = envpool.make_gymnasium("Breakout-v5", num_envs=1, seed=2)
    obs, info = envs.reset()
    assert envs.spec.config.seed == 0 and envs.spec.config.env_seed == [7, 2, 7]
    np.testing.assert_array_equal(info["ram"][0], info["ram"][2])
    assert (info["ram"][0] != info["ram"][1]).any()
    np.testing.assert_array_equal(plain.reset()[0][0], obs[1])
    envs.close()
    plain.close()


def test_screens_are_rendered() -> None:
    envs = envpool.make_gymnasium("Breakout-v5", num_envs=3, render_mode="rgb_array", render_env_id=2)
    envs.reset()
    screens = envs.render([0, 1, 2])
    assert screens.shape == (3, 210, 160, 3) and screens.dtype == np.uint8
    np.testing.assert_array_equal(envs.render(), screens[2:])
    np.testing.assert_array_equal(envs.render(1), screens[1:2])
    envs.close()


def test_dm_env_needs_its_package() -> None:
    if importlib.util.find_spec("dm_env"):
        envs = envpool.make_dm("Pong-v5", num_envs=2)
        assert envs.reset().observation._fields[:3] == ("env_id", "players", "obs")
        assert envs.step(np.zeros(2, int)).step_type.tolist() == [1, 1]
        envs.close()
    else:
        with pytest.raises(ConfigError, match="pip install dm-env"):
            envpool.make_dm("Pong-v5")


def test_two_batches_are_in_flight() -> None:
    """Actions for the last received batch are sent while other batches are stepped, with environment ids in any order.

    The observations of each environment must equal those of a single environment with the same seed and actions.
    """
    envs = envpool.make("Pong-v5", env_type="gymnasium", num_envs=8, batch_size=2, num_threads=2, seed=3)
    alone = [envpool.make_gymnasium("Pong-v5", seed=3 + i) for i in range(8)]
    steps = [0] * 8
    waiting: list[np.ndarray] = []
    for env in alone:
        env.reset()
    envs.async_reset()
    for t in range(80):
        obs, _, _, _, info = envs.recv()
        for k, i in enumerate(info["env_id"]):
            if steps[i]:
                np.testing.assert_array_equal(obs[k], alone[i].step(np.array([(steps[i] + i) % 6]))[0][0])
            steps[i] += 1
        waiting.append(info["env_id"])
        if t % 3:  # At every third step, send no actions.
            ids = waiting.pop(0)[::-1]
            envs.send(np.array([(steps[i] + i) % 6 for i in ids]), ids)
            if len(waiting) > 1:
                ids = waiting.pop()
                envs.send(np.array([(steps[i] + i) % 6 for i in ids]), ids)
    assert min(steps) > 1
    while True:  # recv raises NoAsyncCallError if no environment is being stepped.
        try:
            envs.recv()
        except gymnasium.error.NoAsyncCallError:
            break
    with pytest.raises(ValueError, match="different environments"):
        envs.send(np.zeros(2, int), np.array([0, 0]))
    envs.close()


def test_a_part_of_the_games_plays_a_step() -> None:
    envs = envpool.make("Pong-v5", env_type="gymnasium", num_envs=4, num_threads=1, seed=3)
    alone = [envpool.make_gymnasium("Pong-v5", seed=3 + i) for i in range(4)]
    for env in alone:
        env.reset()
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
    steps = theirs[4]["elapsed_step"]
    assert ours[4]["elapsed_step"].tolist() == [steps[0], 1, steps[2], 1] and min(steps) > 1
    for wrong in (np.array([4]), np.array([-1]), np.array([0.5])):
        with pytest.raises(ValueError, match="env_id"):
            envs.reset(wrong)
    envs.close()
    twin.close()


def test_the_spec_has_the_options_and_spaces() -> None:
    envs = envpool.make_gymnasium("Pong-v5", num_envs=3, max_episode_steps=100, mode=1, difficulty=1)
    spec = envpool.make_spec("Pong-v5", num_envs=3, max_episode_steps=100, mode=1, difficulty=1)
    assert envs.spec.config == spec.config and spec.config.max_episode_steps == 100
    assert spec.config[:5] == (3, 3, 0, 1, -1) and spec.config.task == "pong" and spec.config.mode == 1
    assert envs.num_envs == 3 and envs.config["num_envs"] == 3 and "gym_reset_return_info=True" in repr(spec)
    assert str(envs) == repr(envs) and "num_envs=3" in repr(gymnasium.wrappers.vector.RecordEpisodeStatistics(envs))
    assert spec.action_space == envs.action_space and spec.observation_space == envs.observation_space
    assert list(spec.action_array_spec) == ["env_id", "players.env_id", "action"]
    envs.close()
    assert len(envpool.list_all_envs()) == 82 and {"MsPacman-v5", "TicTacToe3d-v5"} <= set(envpool.list_all_envs())
    assert envpool.make_spec("TicTacToe3d-v5").config.task == "tic_tac_toe_3d"


@pytest.mark.parametrize(
    ("task", "options", "message"),
    [
        ("Pnog-v5", {}, r"task 'Pnog-v5': must be a game.*Pong"),
        ("Pong-v5", {"noop_mx": 3}, r"noop_mx: must be one of .*noop_max"),
        ("Pong-v5", {"noop_max": 0}, "noop_max=0: must be a whole number from 1"),
        ("Pong-v5", {"max_episode_steps": 0}, "max_episode_steps=0"),
        ("Pong-v5", {"use_inter_area_resize": False}, "use_inter_area_resize=False: must be True"),
        ("Pong-v5", {"gray_scale": False}, "gray_scale=False: must be True"),
        ("Pong-v5", {"gym_reset_return_info": False}, "gym_reset_return_info=False: must be True"),
        ("Pong-v5", {"env_type": "mujoco"}, "env_type='mujoco': must be one of dm, gym, gymnasium"),
        ("Pong-v5", {"render_mode": "human"}, "render_mode='human': must be one of None, rgb_array"),
        ("Pong-v5", {"seed": [1, 2, 3], "num_envs": 2}, "3 seeds: must be num_envs=2"),
        ("Pong-v5", {"seed": [1], "env_seed": [2]}, "seed and env_seed"),
        ("Pong-v5", {"seed": 2**31}, "seed=2147483648: must be"),
        ("Pong-v5", {"seed": 1.5}, "seed=1.5: must be"),
        ("Pong-v5", {"batch_size": 2}, "batch_size=2: must be"),
    ],
)
def test_bad_arguments_are_refused(task: str, options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        envpool.make(task, **{"env_type": "gymnasium", **options})


def test_games_are_found_by_the_ids_of_others() -> None:
    names = ("MsPacman-v5", "MsPacmanNoFrameskip-v4", "ALE/MsPacman-v5", "accel_rl/MsPacman-v5", "ms_pacman")
    assert {task_game(name) for name in names} == {"ms_pacman"}
