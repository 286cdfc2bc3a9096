"""Scores of whole episodes, put together from rollouts."""

from collections import deque
from dataclasses import dataclass
from typing import Any

import numpy as np

from accel_rl.data.rollout_arrays import RolloutArrays


@dataclass(frozen=True, slots=True)
class Episode:
    """A finished episode: raw score, length in agent steps, and which environment played it."""

    score: float
    length: int
    b: int


class EpisodeTracker:
    """Running score and length of each environment; the last `window` finished episodes (paper: 100).

    `partial_starts`: environments begin somewhere inside an episode (decorrelated starts), whose beginning nobody
    counted; such an episode is left out.
    """

    def __init__(self, B: int, window: int = 100, partial_starts: bool = False):
        self._partial_starts = partial_starts
        self.partial = np.full(B, partial_starts)
        self.score = np.zeros(B, np.float64)
        self.length = np.zeros(B, np.int64)
        self.recent: deque[tuple[float, int]] = deque(maxlen=window)
        self.count = 0

    def add(self, rollout: RolloutArrays) -> list[Episode]:
        """Take in T steps; returns the episodes that ended, in the order of (t, b)."""
        finished = []
        for t in range(rollout.reward.shape[0]):
            valid = rollout.valid[t]
            self.score += np.where(valid, rollout.reward[t], 0.0)
            self.length += valid
            ended = rollout.ended[t] & valid
            if ended.any():
                for b in np.flatnonzero(ended & ~self.partial):
                    finished.append(Episode(float(self.score[b]), int(self.length[b]), int(b)))
                self.score[ended] = 0.0
                self.length[ended] = 0
                self.partial[ended] = False
        self.recent.extend((e.score, e.length) for e in finished)
        self.count += len(finished)
        return finished

    def forget(self, b: slice) -> None:
        """These environments start anew: what they were playing has no end."""
        self.score[b], self.length[b], self.partial[b] = 0.0, 0, self._partial_starts

    def state_dict(self) -> dict[str, Any]:
        return {
            "score": self.score.copy(),
            "length": self.length.copy(),
            "partial": self.partial.copy(),
            "count": self.count,
            "recent": [[s, n] for s, n in self.recent],
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.score[:], self.length[:], self.partial[:] = state["score"], state["length"], state["partial"]
        self.count = state["count"]
        self.recent.clear()
        self.recent.extend((float(s), int(n)) for s, n in state["recent"])
