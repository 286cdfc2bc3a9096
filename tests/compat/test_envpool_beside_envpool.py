"""Our EnvPool interface compared with EnvPool 1.2.5: returned values, types and attributes."""

import inspect
from typing import Any

import numpy as np
import pytest

pytest.importorskip("accel_rl.emulator._core")

from accel_rl.compat import envpool as ours

theirs = pytest.importorskip("envpool", reason="the comparison needs EnvPool itself: pip install envpool==1.2.5")
pytestmark = pytest.mark.slow
GAMES = ("Pong-v5", "Breakout-v5", "Seaquest-v5", "MsPacman-v5", "Qbert-v5", "SpaceInvaders-v5")
STEPS = 2_000


def both(task: str, **options: Any) -> tuple[Any, Any]:
    options = {"env_type": "gymnasium", "num_envs": 2, "num_threads": 2, "seed": 7, **options}
    return ours.make(task, **options), theirs.make(task, **options)


def equal(a: Any, b: Any) -> None:
    """Assert that two results have equal types, keys in the same order, dtypes, shapes and values."""
    if isinstance(b, dict):
        assert type(a) is dict and list(a) == list(b)
        for name in b:
            equal(a[name], b[name])
    elif isinstance(b, tuple):
        assert isinstance(a, tuple) and len(a) == len(b)
        assert getattr(a, "_fields", None) == getattr(b, "_fields", None)
        for x, y in zip(a, b, strict=True):
            equal(x, y)
    else:
        assert type(a) is type(b) and a.dtype == b.dtype and a.shape == b.shape
        np.testing.assert_array_equal(a, b)


def play(a: Any, b: Any, steps: int) -> tuple[int, int, int]:
    """Compare our interface with EnvPool on random actions, each of which is repeated for five steps.

    Return the numbers of lost lives, of terminated episodes, and of truncated episodes.
    """
    rng = np.random.default_rng(0)
    equal(a.reset(), b.reset())
    lost = over = late = 0
    for t in range(steps):
        if t % 5 == 0:
            actions = rng.integers(0, a.action_space.n, len(a))
        mine, yours = a.step(actions), b.step(actions)
        equal(mine, yours)
        lost += int((mine[2] & (mine[4]["terminated"] == 0)).sum())
        over += int(mine[4]["terminated"].sum())
        late += int(mine[3].sum())
    a.close()
    return lost, over, late


@pytest.mark.parametrize("use_fire_reset", [False, True])
@pytest.mark.parametrize("episodic_life", [False, True])
@pytest.mark.parametrize("task", GAMES)
def test_steps_are_equal(task: str, episodic_life: bool, use_fire_reset: bool) -> None:
    a, b = both(task, episodic_life=episodic_life, use_fire_reset=use_fire_reset, reward_clip=use_fire_reset)
    lost, over, _ = play(a, b, STEPS)
    assert over and (lost > 0) == (episodic_life and task != "Pong-v5")


@pytest.mark.parametrize(
    "options",
    [
        {"max_episode_steps": 37, "episodic_life": True},
        {"max_episode_steps": 1},
        {"repeat_action_probability": 0.25},
        {"frame_skip": 1, "stack_num": 1, "episodic_life": True},
        {"frame_skip": 2, "stack_num": 3, "noop_max": 1},
        {"frame_skip": 9, "stack_num": 1, "episodic_life": True},
        {"full_action_space": True, "reward_clip": True},
        {"seed": [1, 2_000_000_000]},
        {"env_seed": [5, -3], "repeat_action_probability": 0.1},
        {"seed": np.array([3, 1])},
        {"mode": 4, "difficulty": 1},
        {"zero_discount_on_life_loss": True},
    ],
    ids=str,
)
def test_steps_with_other_options_are_equal(options: dict[str, Any]) -> None:
    a, b = both("Breakout-v5", **options)
    lost, over, late = play(a, b, 500)
    assert a.spec.config._replace(base_path="")._asdict() == b.spec.config._replace(base_path="")._asdict()
    assert lost + over + late > 0


@pytest.mark.parametrize("task", ["Breakout-v5", "SpaceInvaders-v5"])
def test_time_steps_of_dm_env_are_equal(task: str) -> None:
    dm_env = pytest.importorskip("dm_env")
    for zero in (False, True):
        options = {"env_type": "dm", "episodic_life": not zero, "zero_discount_on_life_loss": zero}
        a, b = both(task, **options)
        equal(a.reset(), b.reset())
        rng = np.random.default_rng(1)
        for _ in range(400):
            actions = rng.integers(0, 4, 2)
            mine = a.step(actions)
            equal(mine, b.step(actions))
        assert isinstance(a, dm_env.Environment)
        assert a.action_spec() == b.action_spec() and repr(a.observation_spec()) == repr(b.observation_spec())
        a.close()


def test_resets_of_some_games_are_equal() -> None:
    a, b = both("Breakout-v5", num_envs=4, episodic_life=True, max_episode_steps=60)
    equal(a.reset(), b.reset())
    rng = np.random.default_rng(2)
    for t in range(150):
        actions = rng.integers(0, 4, 4)
        equal(a.step(actions), b.step(actions))
        if t % 40 == 39:
            mask = np.array([True, False, t > 50, True])
            equal(a.reset(options={"reset_mask": mask}), b.reset(options={"reset_mask": mask}))
        if t % 40 == 19:
            ids = np.array([2, 0, 3, 1], np.int32)[: 1 + t // 40]
            equal(a.step(actions[: len(ids)], ids), b.step(actions[: len(ids)], ids))
    a.close()


def test_each_game_of_a_small_batch_is_equal() -> None:
    """The observations, rewards and flags of each environment equal EnvPool's if batches have 2 of 8 environments.

    Environments arrive in any order, so that the history of each environment is compared separately.
    """
    histories: list[list[list[Any]]] = []
    for envs in both("Breakout-v5", num_envs=8, batch_size=2, episodic_life=True):
        seen: list[list[Any]] = [[] for _ in range(8)]
        envs.async_reset()
        waiting = [envs.recv(), envs.recv()]
        for _ in range(600):
            obs, reward, terminated, truncated, info = waiting.pop(0)
            ids = info["env_id"]
            for k, i in enumerate(ids):
                seen[i].append(
                    (
                        obs[k].tobytes(),
                        reward[k],
                        terminated[k],
                        truncated[k],
                        *(info[n][k] for n in ("lives", "elapsed_step")),
                    )
                )
            envs.send(np.array([(3 * len(seen[i]) // 4 + i) % 4 for i in ids], np.int32), ids)
            waiting.append(envs.recv())
        histories.append(seen)
        envs.close()
    for mine, yours in zip(*histories, strict=True):
        n = min(len(mine), len(yours))
        assert n > 50 and mine[:n] == yours[:n]


def test_attributes_are_equal() -> None:
    options = {"num_envs": 3, "stack_num": 2, "noop_max": 5, "mode": 0, "seed": [3, 4, 5]}
    a, b = both("Pong-v5", render_mode="rgb_array", render_env_id=1, **options)
    missing = {x for x in dir(b) if not x.startswith("_")} - set(dir(a))
    assert missing == {"xla"}
    for name in ("closed", "is_async", "is_vector_env", "num_envs", "render_mode", "observation_space", "action_space"):
        assert getattr(a, name) == getattr(b, name), name
    for name in ("single_observation_space", "single_action_space"):
        assert getattr(a, name) == getattr(b, name), name
    equal(a.all_env_ids, b.all_env_ids)
    assert len(a) == len(b) and a.metadata["autoreset_mode"] is b.metadata["autoreset_mode"]
    for spec, other in (
        (a.spec, b.spec),
        (ours.make_spec("Pong-v5", **options), theirs.make_spec("Pong-v5", **options)),
    ):
        assert list(spec.config._fields) == list(other.config._fields)
        assert spec.config._replace(base_path="") == tuple(other.config._replace(base_path=""))
        assert not {x for x in dir(other) if not x.startswith("_")} - {"gen_config"} - set(dir(spec))
        assert spec.observation_space == other.observation_space and spec.action_space == other.action_space
        assert spec.reward_threshold is other.reward_threshold
        for arrays, their_arrays in (
            (spec.state_array_spec, other.state_array_spec),
            (spec.action_array_spec, other.action_array_spec),
        ):
            assert list(arrays) == list(their_arrays)
            for name, array in arrays.items():
                for field in ("shape", "dtype", "minimum", "maximum"):
                    assert getattr(array, field) == getattr(their_arrays[name], field), (name, field)
    assert {**a.config, "base_path": ""} == {**b.config, "base_path": ""}
    for name in ("reset", "step", "send", "recv", "async_reset", "render", "seed", "close"):
        assert list(inspect.signature(getattr(a, name)).parameters) == list(
            inspect.signature(getattr(b, name)).parameters
        ), name
    for envs in (a, b):
        envs.reset()
        envs.step(np.ones(3, int))
    for chosen in (None, 2, [0, 2]):
        equal(a.render(chosen), b.render(chosen))
    for call in ("seed", "reset"):
        for envs in (a, b):
            with pytest.warns(UserWarning, match="seed"):
                getattr(envs, call)(seed=3)
    for envs in (a, b):
        envs.close()
        assert envs.closed
    known = set(theirs.list_all_envs())
    assert len(ours.list_all_envs()) == 82 and set(ours.list_all_envs()) <= known


def test_gym_is_gymnasium_without_gym() -> None:
    a, b = (m.make_gym("Pong-v5", num_envs=2) for m in (ours, theirs))
    equal(a.reset(), b.reset())
    a.close()
