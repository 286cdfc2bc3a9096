"""Gymnasium environments of the emulator: options, names, copies, game modes, raw observations, videos, seeds,
states."""

import copy
import importlib.util
import inspect
import pickle
from itertools import product
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.vector import SyncVectorEnv

pytest.importorskip("ale_py")
pytest.importorskip("accel_rl.emulator._core")

import ale_py
from ale_py.env import AtariEnv
from ale_py.vector_env import AtariVectorEnv

import accel_rl
from accel_rl.emulator import VectorEnv
from accel_rl.emulator.ale_view import CALLS
from accel_rl.emulator.games import difficulties, modes, vector_games
from accel_rl.emulator.single_env import SingleEnv
from accel_rl.gym import env_id
from accel_rl.machine import hardware
from accel_rl.text.errors import ConfigError
from tests.marks import slow

gymnasium.register_envs(accel_rl.gym)
gymnasium.register_envs(ale_py)

GAMES = vector_games()
PLAIN = {"noop_max": 0, "use_fire_reset": False, "reward_clipping": False}  # as AtariEnv


def ale_seed(seed: int) -> int:
    """Return the seed that ale-py's AtariEnv passes to ALE after reset(seed=seed)."""
    return int(np.random.SeedSequence(seed).generate_state(n_words=2)[1])


def parameters(function: Any) -> dict[str, Any]:
    return {name: p.default for name, p in inspect.signature(function).parameters.items() if name != "self"}


def compare(game: str, steps: int, obs_type: str, **options: Any) -> None:
    """Play a game in our environment and in ale-py's AtariEnv, and compare all results.

    Each reset has a seed, because AtariEnv also draws random numbers for frames after the end of a game.
    """
    theirs = gymnasium.make(env_id(game).replace("accel_rl/", "ALE/"), obs_type=obs_type, **options)
    ours = gymnasium.make(env_id(game), obs_type=obs_type, **options, **PLAIN)
    assert ours.observation_space == theirs.observation_space and ours.action_space == theirs.action_space
    assert ours.unwrapped.get_action_meanings() == theirs.unwrapped.get_action_meanings()
    rng = np.random.default_rng(0)
    their_obs, _ = theirs.reset(seed=0)
    obs, _ = ours.reset(seed=ale_seed(0))
    np.testing.assert_array_equal(obs, their_obs, err_msg=f"{game} {options}: reset")
    for t in range(steps):
        action = int(rng.integers(ours.action_space.n))
        their_obs, their_reward, their_end, _, _ = theirs.step(action)
        obs, reward, end, _, _ = ours.step(action)
        np.testing.assert_array_equal(obs, their_obs, err_msg=f"{game} {options}: step {t}")
        assert (reward, end) == (their_reward, their_end), f"{game} {options}: step {t}"
        if end:
            obs, their_obs = ours.reset(seed=ale_seed(t))[0], theirs.reset(seed=t)[0]
            np.testing.assert_array_equal(obs, their_obs, err_msg=f"{game} {options}: step {t}")
    ours.close()
    theirs.close()


FAST = {("breakout", "rgb"), ("pong", "grayscale"), ("breakout", "ram")}
PAIRS = [
    pytest.param(*pair, marks=() if pair in FAST else pytest.mark.slow)
    for pair in product(("breakout", "pong"), ("rgb", "grayscale", "ram"))
]


@pytest.mark.parametrize(("game", "obs_type"), PAIRS)
def test_raw_observations_equal_ale_pys(game: str, obs_type: str) -> None:
    compare(game, 200, obs_type)


@pytest.mark.parametrize(
    ("game", "options"),
    [
        slow("pong", {"mode": 1, "difficulty": 1}),
        ("space_invaders", {"mode": 9, "difficulty": 0, "full_action_space": True}),
        ("breakout", {"mode": 12, "difficulty": 1, "frameskip": 2, "repeat_action_probability": 0.0}),
        slow("freeway", {"mode": 3}),
        slow("ms_pacman", {"mode": 2}),
    ],
)
def test_modes_and_difficulties_equal_ale_pys(game: str, options: dict[str, Any]) -> None:
    compare(game, 100, "ram", **options)


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("game", GAMES)
def test_every_mode_and_difficulty_equals_ale_pys(game: str) -> None:
    for mode in modes(game):
        for difficulty in difficulties(game):
            compare(game, 100, "ram", mode=mode, difficulty=difficulty)


@pytest.mark.parametrize("autoreset_mode", ["NextStep", "SameStep"])
def test_raw_observations_of_a_batch_are_those_of_its_games(autoreset_mode: str) -> None:
    options = {"obs_type": "ram", "max_num_frames_per_episode": 40, "repeat_action_probability": 0.25, "mode": 1}
    envs = gymnasium.make_vec(env_id("pong"), num_envs=3, autoreset_mode=autoreset_mode, **options)
    alone = [gymnasium.make(env_id("pong"), **options) for _ in range(3)]
    first, _ = envs.reset(seed=[5, 2**32 - 1, 7])
    assert envs.observation_space.shape == first.shape == (3, 128)
    for env, seed, obs in zip(alone, (5, 2**32 - 1, 7), first, strict=True):
        np.testing.assert_array_equal(env.reset(seed=seed)[0], obs)
    for t in range(12):
        obs, _, _, truncated, info = envs.step(np.full(3, t % 6))
        ends = t == 9
        assert truncated.tolist() == [ends] * 3
        last = info["final_obs"] if ends and autoreset_mode == "SameStep" else obs
        for env, seen in zip(alone, last, strict=True):
            np.testing.assert_array_equal(env.step(t % 6)[0], seen)
        if ends:
            break
    envs.close()


def test_videos_are_recorded(tmp_path: Path) -> None:
    pytest.importorskip("moviepy")
    env = gymnasium.wrappers.RecordVideo(gymnasium.make(env_id("pong"), render_mode="rgb_array"), str(tmp_path / "one"))
    envs = gymnasium.make_vec(env_id("pong"), num_envs=2, render_mode="rgb_array")
    envs = gymnasium.wrappers.vector.RecordVideo(envs, str(tmp_path / "two"), video_length=4)
    env.reset(seed=1)
    envs.reset(seed=1)
    for _ in range(5):
        env.step(0)
        envs.step(np.zeros(2, int))
    env.close()
    envs.close()
    assert list((tmp_path / "one").glob("*.mp4")) and list((tmp_path / "two").glob("*.mp4"))


def test_render_returns_the_screen_of_ale_py() -> None:
    theirs = gymnasium.make("ALE/Breakout-v5", render_mode="rgb_array")
    ours = gymnasium.make(env_id("breakout"), render_mode="rgb_array", **PLAIN)
    assert (ours.render_mode, ours.metadata["render_fps"]) == (theirs.render_mode, theirs.metadata["render_fps"])
    theirs.reset(seed=3)
    ours.reset(seed=ale_seed(3))
    for t in range(50):
        theirs.step(t % 4)
        ours.step(t % 4)
        np.testing.assert_array_equal(ours.render(), theirs.render())
    frames = gymnasium.wrappers.RenderCollection(ours)
    frames.reset(seed=1)
    frames.step(0)
    assert [frame.shape for frame in frames.render()] == [(210, 160, 3)] * 2


def test_render_without_a_render_mode_warns() -> None:
    env = VectorEnv("pong", 2)
    env.reset(seed=1)
    with pytest.warns(UserWarning, match="render_mode='rgb_array'"):
        assert env.render() is None


def test_states_of_one_game_follow_ale_pys_calls() -> None:
    """A restored state continues the random numbers of sticky actions only if it was saved with include_rng."""
    env = gymnasium.make(env_id("breakout")).unwrapped
    env.reset(seed=1)
    for t in range(20):
        env.step(t % 4)

    def played() -> list[bytes]:
        return [env.step(t % 4)[0].tobytes() for t in range(60)]

    state, state_with_rng = env.clone_state(), env.clone_state(include_rng=True)
    first = played()
    env.restore_state(state_with_rng)
    assert played() == first
    env.restore_state(state)
    assert played() != first
    with pytest.raises(ValueError, match="cut off"):
        env.restore_state(state[:50])


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda env: pickle.loads(pickle.dumps(env))], ids=["copy", "pickle"])
def test_a_copy_plays_on_as_the_original(copied: Any) -> None:
    env = gymnasium.make(env_id("breakout"), mode=4, obs_type="grayscale", render_mode="rgb_array")
    envs = gymnasium.make_vec(env_id("ms_pacman"), num_envs=3, noop_max=5)
    new = copied(VectorEnv("pong", 2))
    new.reset(seed=1)
    for one, action in ((env, 0), (envs, np.zeros(3, int))):
        one.reset(seed=1)
        for _ in range(30):
            one.step(action)
        other = copied(one)
        assert other.spec.id == one.spec.id and other.metadata == one.metadata
        for _ in range(60):
            for a, b in zip(one.step(action)[:4], other.step(action)[:4], strict=True):
                np.testing.assert_array_equal(a, b)
        one.close()
        other.close()


@pytest.mark.parametrize("seed", [[1, 2, 3], (4, 4, 4), np.array([2**32 - 1, 0, 1]), [2**31, 2**32 - 1, 5]])
def test_seeds_are_those_of_gymnasiums_vector_environments(seed: Any) -> None:
    envs = VectorEnv("pong", 3)
    theirs = SyncVectorEnv([lambda: SingleEnv("pong")] * 3)
    np.testing.assert_array_equal(envs.reset(seed=seed)[0], theirs.reset(seed=[int(s) for s in seed])[0])
    envs.close()
    theirs.close()


def test_bad_seeds_are_refused() -> None:
    envs = VectorEnv("pong", 2)
    envs.reset(seed=[None, 3])
    for seed, message in (
        (2**32, "below 2\\^32"),
        ([1, 2**32], "below 2\\^32"),
        ([1], "an array of them \\[2\\]"),
        (["a", 1], "whole number"),
        ([1.5, 2], "whole number"),
    ):
        with pytest.raises(ValueError, match=message):
            envs.reset(seed=seed)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"mode": 7}, "mode=7 is not one of pong's: must be one of 0, 1"),
        ({"difficulty": 5}, "difficulty=5 is not one of pong's: must be one of 0"),
        ({"obs_type": "gray"}, "nearest: grayscale"),
        ({"obs_type": "ram", "stack_num": 2}, "FrameStackObservation"),
        ({"render_mode": "rgb"}, "nearest: rgb_array"),
    ],
)
def test_bad_options_are_refused(options: dict[str, Any], message: str) -> None:
    for make in (lambda **o: VectorEnv("pong", 2, **o), lambda **o: SingleEnv("pong", **o)):
        with pytest.raises(ConfigError, match=message):
            make(**options)


def test_names_and_defaults_are_those_of_ale_py() -> None:
    """Our classes have the parameters and defaults of ale-py's classes, except for the differences that the test
    lists."""
    vector, single = parameters(AtariVectorEnv.__init__), parameters(AtariEnv.__init__)
    ours = parameters(VectorEnv.__init__)
    assert {name: ours.get(name, "missing") for name in vector} == vector
    lacks = {"sound_obs"}
    differs = {
        "obs_type": (None, "rgb"),
        "repeat_action_probability": (0.0, 0.25),
        "max_num_frames_per_episode": (108_000, None),
    }
    assert set(single) - set(ours) == lacks
    assert {k: (ours[k], v) for k, v in single.items() if k not in lacks and ours[k] != v} == differs
    registered = gymnasium.spec(env_id("pong")).kwargs
    theirs = gymnasium.spec("ALE/Pong-v5").kwargs
    assert registered == {k: v for k, v in theirs.items() if k in registered} and not set(theirs) - set(ours)
    calls = ("reset", "step", "render", "get_action_meanings", "clone_state", "restore_state", "close")
    for call in calls:
        assert list(parameters(getattr(SingleEnv, call))) == list(parameters(getattr(AtariEnv, call))), call
    for call in ("reset", "render", "close"):
        assert list(parameters(getattr(VectorEnv, call))) == list(parameters(getattr(SyncVectorEnv, call))), call


def test_the_page_has_the_current_options() -> None:
    path = Path(__file__).parents[2] / "docs" / "tools" / "faces.py"
    spec = importlib.util.spec_from_file_location("faces", path)
    assert spec is not None and spec.loader is not None
    faces = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(faces)
    assert faces.PAGE.read_text() == faces.page(), "run python docs/tools/faces.py"


def test_a_limit_of_steps_names_the_option_of_frames() -> None:
    gymnasium.register_envs(accel_rl.gym)
    with pytest.raises(ConfigError, match=r"^max_episode_steps: use max_num_frames_per_episode"):
        gymnasium.make_vec("accel_rl/Pong-v5", num_envs=1, max_episode_steps=5)


def test_the_seeds_of_a_reset_are_reported_as_by_ale_py() -> None:
    ours, ales = gymnasium.make("accel_rl/Pong-v5"), gymnasium.make("ALE/Pong-v5")
    for seed in (3, None):
        assert ("seeds" in ours.reset(seed=seed)[1]) == ("seeds" in ales.reset(seed=seed)[1]) == (seed is not None)
    assert ours.reset(seed=4)[1]["seeds"] == (4, 4)


def test_unknown_options_are_named() -> None:
    with pytest.raises(ConfigError, match="sound_obs: VectorEnv has no such option; ale-py's environments may have it"):
        gymnasium.make(env_id("pong"), sound_obs=True)
    with pytest.raises(ConfigError, match="nearest: noop_max"):
        VectorEnv("pong", 2, noopmax=3)


def test_gymnasiums_preprocessing_is_that_over_ale_py() -> None:
    """Gymnasium's AtariPreprocessing, which reads `env.unwrapped.ale`, gives equal results over our environment and
    ale-py's."""
    played = []
    for id, options in ((env_id("breakout"), PLAIN), ("ALE/Breakout-v5", {})):
        env = gymnasium.make(id, obs_type="rgb", frameskip=1, repeat_action_probability=0.0, **options)
        env = gymnasium.wrappers.AtariPreprocessing(env, noop_max=0, terminal_on_life_loss=True)
        obs = [env.reset(seed=1)[0]]
        for t in range(200):
            result = env.step(t % 4)
            obs.append(result[0])
            if result[2]:
                break
        played.append((obs, result[1:4], env.unwrapped.ale.lives()))
    (ours, *our_end), (theirs, *their_end) = played
    assert our_end == their_end and len(ours) == len(theirs) > 20
    np.testing.assert_array_equal(np.array(ours), np.array(theirs))


def test_the_calls_of_ale_are_ale_pys() -> None:
    ours, theirs = gymnasium.make(env_id("pong"), **PLAIN), gymnasium.make("ALE/Pong-v5")
    ours.reset(seed=ale_seed(1))
    theirs.reset(seed=1)
    for env in (ours, theirs):
        for t in range(30):
            env.step(t % 6)
    for call in CALLS:
        np.testing.assert_array_equal(
            getattr(ours.unwrapped.ale, call)(), getattr(theirs.unwrapped.ale, call)(), err_msg=call
        )
    with pytest.raises(AttributeError, match="for others make ALE"):
        ours.unwrapped.ale.setRAM(0, 1)


def test_threads_follow_the_quota(monkeypatch: pytest.MonkeyPatch) -> None:
    def threads() -> int:
        return len(list(Path("/proc/self/task").iterdir()))

    monkeypatch.setattr(hardware, "allowed_cores", lambda: [0, 1, 2, 3])
    monkeypatch.setattr(hardware, "cgroup_cpus", lambda: 1.5)
    before = threads()
    envs = VectorEnv("pong", 8)
    assert threads() == before + 2
    envs.close()
