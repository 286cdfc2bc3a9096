"""The numbers in `info` at an episode's end, which a rollout stores as bytes."""

import numpy as np

from accel_rl.envs.episode_info import INFO_BYTES, LEFT_OUT, SCORE, episode_info, packed, unpacked


def test_numbers_come_back() -> None:
    numbers = {"a": 1.0, "b": -2.5, SCORE: 3.0}
    data = packed(numbers)
    assert data.shape == (INFO_BYTES,) and data.dtype == np.uint8
    assert unpacked(data) == numbers
    assert unpacked(np.zeros(INFO_BYTES, np.uint8)) == {} == unpacked(np.zeros(0, np.uint8))


def test_what_does_not_fit_is_left_out_but_never_the_score() -> None:
    numbers = {f"a_number_with_a_long_name_{i}": float(i) for i in range(100)} | {SCORE: 3.0}
    back = unpacked(packed(numbers))
    assert back.pop(LEFT_OUT) == len(numbers) - len(back)
    assert back[SCORE] == 3.0 and 5 < len(back) < 100
    assert all(numbers[name] == value for name, value in back.items())


def test_only_numbers_are_taken() -> None:
    info = {"TimeLimit.truncated": True, "x": np.float32(2), "y": np.array([1.0]), "z": "text", "episode": {"r": [4.0]}}
    assert episode_info(info) == {"x": 2.0, SCORE: 4.0}


def test_an_info_of_any_kind_is_taken() -> None:
    info = {5: 6, "scalar": np.array(4.0), "c,d": 1, "ünï": 2, "large": 10**400, "complex": 1j, "episode": {"r": "no"}}
    assert episode_info(info) == {"5": 6.0, "scalar": 4.0, "c,d": 1.0, "ünï": 2.0}
    assert episode_info(None) == {}
