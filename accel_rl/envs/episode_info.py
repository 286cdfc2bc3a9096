"""An environment can report numbers at the end of an episode. A rollout stores these numbers as bytes."""

import json
from numbers import Real
from typing import Any

import numpy as np

INFO_BYTES = 512
"""A rollout stores `INFO_BYTES` bytes per step for the numbers that an episode reports."""
SCORE = "episode/r"
"""`SCORE` is the name of the score that the wrapper gymnasium.wrappers.RecordEpisodeStatistics records, if the user's
environment has this wrapper."""
FORCED = "episode/forced"
"""`FORCED` is the name of the points of the frames that a protocol plays by itself after a lost life. The points count
in an episode's score, as with the wrappers of baselines, and are no rewards of the agent."""
LEFT_OUT = "episode/left_out"
"""`LEFT_OUT` is the name under which the number of omitted numbers, which did not fit into INFO_BYTES, is stored."""


def episode_info(info: Any) -> dict[str, float]:
    """The numbers in the dict `info` of a Gymnasium step, and the score in `info["episode"]`. Arrays, texts and
    Gymnasium's own keys are omitted."""
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
    """The float of a Python or numpy number or scalar array, or None for other objects."""
    if isinstance(x, np.ndarray) and x.shape == ():
        x = x.item()
    if not isinstance(x, Real | np.bool_):
        return None
    try:
        return float(x)
    except OverflowError:
        return None


def packed(numbers: dict[str, float]) -> np.ndarray:
    """Bytes [INFO_BYTES]. If the numbers do not fit, the last ones are omitted and their count is stored. The score is
    never omitted."""
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
