"""The numbers that an environment reports at the end of an episode, which a rollout stores as bytes."""

import json
from numbers import Real
from typing import Any

import numpy as np

INFO_BYTES = 512
"""Bytes per step of a rollout for the numbers that an episode reports."""
SCORE = "episode/r"
"""The name of the score that gymnasium.wrappers.RecordEpisodeStatistics records, if the user's environment has this
wrapper."""
FORCED = "episode/forced"
"""The name of the points that are scored in the frames that a protocol plays automatically after a lost life. As with
the wrappers of OpenAI baselines, points in automatically played frames count in an episode's score, but the agent gets
no reward for them."""
LEFT_OUT = "episode/left_out"
"""The name of the count of numbers that were omitted, because they did not fit into INFO_BYTES."""


def episode_info(info: Any) -> dict[str, float]:
    """Return the numbers in the dict `info` of a Gymnasium step, and the score in `info["episode"]`. Arrays, texts and
    keys with a dot are omitted."""
    if not isinstance(info, dict):
        return {}
    result = {str(name): _number(x) for name, x in info.items() if "." not in str(name)}
    numbers = {name: x for name, x in result.items() if x is not None}
    episode = info.get("episode")
    if isinstance(episode, dict) and np.size(r := episode.get("r", ())) == 1:
        score = _number(np.reshape(r, ()))
        if score is not None:
            numbers[SCORE] = score
    return numbers


def _number(x: Any) -> float | None:
    """Convert a Python or NumPy number or a scalar array to float, and other objects to None."""
    if isinstance(x, np.ndarray) and x.shape == ():
        x = x.item()
    if not isinstance(x, Real | np.bool_):
        return None
    try:
        return float(x)
    except OverflowError:
        return None


def packed(numbers: dict[str, float]) -> np.ndarray:
    """Convert numbers to bytes [INFO_BYTES]. If the numbers do not fit, the last ones are omitted, and the count of
    omitted numbers is stored. The score is never omitted."""
    names = sorted(numbers, key=lambda name: name != SCORE)
    kept = {name: numbers[name] for name in names}
    while len(text := json.dumps(kept).encode()) > INFO_BYTES:
        del kept[names.pop()]
        kept[LEFT_OUT] = float(len(numbers) - len(names))
    return np.frombuffer(text.ljust(INFO_BYTES, b"\0"), np.uint8)


def unpacked(data: np.ndarray) -> dict[str, float]:
    """Inverse of `packed`."""
    text = data.tobytes().rstrip(b"\0")
    return json.loads(text) if text else {}
