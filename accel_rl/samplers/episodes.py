"""The scores of episodes, which may extend over several rollouts."""

from collections import deque
from dataclasses import dataclass
from typing import Any

import numpy as np

from accel_rl.data.rollout_arrays import RolloutArrays
from accel_rl.envs.episode_info import FORCED, INFO_BYTES, LEFT_OUT, SCORE, unpacked
from accel_rl.text.notes import say_once


@dataclass(frozen=True, slots=True)
class Episode:
    """A finished episode of environment `b`, with its length in agent steps. The score is the sum of unclipped rewards
    and of the points of forced frames, or the score that a wrapper of the environment recorded."""

    score: float
    length: int
    b: int


class EpisodeTracker:
    """Stores the score and length of each environment's unfinished episode, and the last `window` finished episodes (by
    default 100).

    With `partial_starts`, each environment's first episode is not counted, because it began with random actions that
    are in no rollout.
    """

    def __init__(self, B: int, window: int = 100, partial_starts: bool = False):
        self._partial_starts = partial_starts
        self.partial = np.full(B, partial_starts)
        self.score = np.zeros(B, np.float64)
        self.length = np.zeros(B, np.int64)
        self.recent: deque[tuple[float, int]] = deque(maxlen=window)
        self.numbers: deque[dict[str, float]] = deque(maxlen=window)
        self.count = 0

    def add(self, rollout: RolloutArrays) -> list[Episode]:
        """Return the episodes that ended in the rollout, ordered by step and environment."""
        finished, begin = [], 0
        reward, ended = np.where(rollout.valid, rollout.reward, 0.0), rollout.ended & rollout.valid
        for t in np.flatnonzero(ended.any(1)).tolist():
            self._count(reward, rollout.valid, slice(begin, t + 1))
            begin = t + 1
            for b in np.flatnonzero(ended[t] & ~self.partial):
                numbers = unpacked(rollout.info[t, b])
                if left_out := numbers.pop(LEFT_OUT, 0):
                    say_once(
                        f"{left_out:.0f} numbers of an episode's last info have no column: names and numbers of all "
                        f"have {INFO_BYTES} bytes"
                    )
                score = numbers.pop(SCORE, float(self.score[b]) + numbers.pop(FORCED, 0.0))
                finished.append(Episode(score, int(self.length[b]), int(b)))
                self.numbers.extend([numbers] if numbers else [])
            self.score[ended[t]] = 0.0
            self.length[ended[t]] = 0
            self.partial[ended[t]] = False
        self._count(reward, rollout.valid, slice(begin, None))
        self.recent.extend((e.score, e.length) for e in finished)
        self.count += len(finished)
        return finished

    def _count(self, reward: np.ndarray, valid: np.ndarray, steps: slice) -> None:
        self.score += reward[steps].sum(0, dtype=np.float64)
        self.length += valid[steps].sum(0)

    def means(self) -> dict[str, float]:
        """The mean over the recent episodes of each number that the environments report."""
        names = dict.fromkeys(name for numbers in self.numbers for name in numbers)
        return {name: float(np.mean([n[name] for n in self.numbers if name in n])) for name in names}

    def forget(self, b: slice) -> None:
        """Discard the unfinished episodes of environments `b`, which were reset."""
        self.score[b] = 0.0
        self.length[b] = 0
        self.partial[b] = self._partial_starts

    def state_dict(self) -> dict[str, Any]:
        return {
            "score": self.score.copy(),
            "length": self.length.copy(),
            "partial": self.partial.copy(),
            "count": self.count,
            "recent": [[s, n] for s, n in self.recent],
            "numbers": list(self.numbers),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.score[:] = state["score"]
        self.length[:] = state["length"]
        self.partial[:] = state["partial"]
        self.count = state["count"]
        self.recent.clear()
        self.recent.extend((float(s), int(n)) for s, n in state["recent"])
        self.numbers.clear()
        self.numbers.extend(state["numbers"])
