from dataclasses import fields

import numpy as np
import pytest

from accel_rl.data.rollout_arrays import SENTINEL_ACTION, RolloutArrays, Step, rollout_layout
from accel_rl.data.spec import EnvSpec

T, B = 5, 6
SPEC = EnvSpec("x", (3, 2), "uint8", 4, stack=4)


@pytest.fixture
def arrays():
    layout = rollout_layout(SPEC, T, B)
    return RolloutArrays.of({k: np.zeros(s, d) for k, (d, s) in layout.items()}, SPEC.stack)


def test_layout():
    layout = rollout_layout(SPEC, T, B, "0/")
    assert layout["0/frames"] == ("uint8", (4 - 1 + T + 1, B, 3, 2))
    assert layout["0/final_frames"] == ("uint8", (T, B, 3, 2))
    assert layout["0/age"] == ("uint8", (T + 1, B))
    assert layout["0/reward"] == ("float32", (T, B)) and layout["0/action"] == ("int64", (T, B))
    assert {k.removeprefix("0/") for k in layout} == {f.name for f in fields(RolloutArrays)} - {"stack"}
    assert rollout_layout(EnvSpec("v", (7,), "float32", 2), T, B)["frames"] == ("float32", (T + 1, B, 7))


def test_two_rollouts_side_by_side():
    layout = rollout_layout(SPEC, T, B, "0/") | rollout_layout(SPEC, T, B, "1/")
    memory = {k: np.zeros(s, d) for k, (d, s) in layout.items()}
    RolloutArrays.of(memory, 4, "1/").action.fill(3)
    assert (memory["1/action"] == 3).all() and not memory["0/action"].any()


@pytest.mark.parametrize("t", [0, 2, T - 1])
def test_a_step_writes_its_cells_and_no_other(arrays, t):
    b = slice(2, 5)
    step = arrays.step(t, b)
    for f in fields(Step):
        cells = getattr(step, f.name)
        assert len(cells) == 3 and not cells.any()
        cells[:] = 1
    rows = {"frame": ("frames", 4 + t), "age": ("age", t + 1), "final_frame": ("final_frames", t)}
    for f in fields(Step):
        name, row = rows.get(f.name, (f.name, t))
        array = getattr(arrays, name)
        want = np.zeros_like(array)
        want[row, b] = 1
        assert (array == want).all(), f.name
    assert not arrays.action.any()


def test_initial_writes_the_first_observation_alone(arrays):
    head = arrays.initial(slice(1, 3), SPEC)
    for f in fields(Step):
        getattr(head, f.name)[:] = 1
    want_frames, want_age = np.zeros_like(arrays.frames), np.zeros_like(arrays.age)
    want_frames[3, 1:3], want_age[0, 1:3] = 1, 1
    assert (arrays.frames == want_frames).all() and (arrays.age == want_age).all()
    assert not any(getattr(arrays, n).any() for n in ("final_frames", "reward", "ended", "valid", "terminated"))


def test_a_part_of_a_step_is_a_view(arrays):
    part = arrays.step(1, slice(0, B))[2:4]
    part.reward[:] = 7
    part.frame[:] = 9
    assert arrays.reward[1].tolist() == [0, 0, 7, 7, 0, 0]
    assert (arrays.frames[5, 2:4] == 9).all() and arrays.frames.sum() == 9 * 2 * 6


def test_unwritten_cells_show(arrays):
    arrays.fill_sentinels()
    assert (arrays.action == SENTINEL_ACTION).all() and np.isnan(arrays.reward).all()
    assert SENTINEL_ACTION not in range(SPEC.n_actions)
