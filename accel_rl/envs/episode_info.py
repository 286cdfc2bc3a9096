"""Numbers that an environment reports with the last step of an episode, as bytes in a rollout."""

import json
from numbers import Real
from typing import Any

import numpy as np

INFO_BYTES = 512
"""Room for the numbers of an episode, in each cell of a rollout."""
SCORE = "episode/r"
"""The score by gymnasium.wrappers.RecordEpisodeStatistics, where a wrapper of the user's has recorded it."""


def episode_info(info: dict[str, Any]) -> dict[str, float]:
    """Return the numbers of an `info`, and the score of its `episode`; without arrays, texts and Gymnasium's own."""
    numbers = {name: float(x) for name, x in info.items() if isinstance(x, Real | np.bool_) and "." not in name}
    episode = info.get("episode")
    if isinstance(episode, dict) and np.size(episode.get("r", ())) == 1:
        numbers[SCORE] = float(np.reshape(episode["r"], ()))
    return numbers


def packed(numbers: dict[str, float]) -> np.ndarray:
    """Return numbers as bytes [INFO_BYTES]; what does not fit is left out from the end, the score last."""
    names = sorted(numbers, key=lambda name: name != SCORE)
    while len(text := json.dumps({name: numbers[name] for name in names}).encode()) > INFO_BYTES:
        names.pop()
    return np.frombuffer(text.ljust(INFO_BYTES, b"\0"), np.uint8)


def unpacked(data: np.ndarray) -> dict[str, float]:
    """Return the numbers that `packed` wrote; {} where there are none."""
    text = data.tobytes().rstrip(b"\0")
    return json.loads(text) if text else {}
