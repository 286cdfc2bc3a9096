"""The scores and lengths of episodes, which may extend over several rollouts."""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from accel_rl.data.rollout_arrays import RolloutArrays
from accel_rl.envs.episode_info import FORCED, INFO_BYTES, LEFT_OUT, SCORE, unpacked
from accel_rl.envs.several_games import mean_score, score_by_game, std_of_scores
from accel_rl.text.notes import say_once

Recent = tuple[float, int, int]
"""(score, length, index of the game) of an episode. The index is 0 unless the agent plays several games."""


@dataclass(frozen=True, slots=True)
class Episode:
    """A finished episode of environment `b`, with its length in agent steps. The score is the sum of unclipped rewards
    and of the points of forced frames, or the score that a wrapper of the environment recorded. `game` is the index of
    the environment's game."""

    score: float
    length: int
    b: int
    game: int = 0


def episode_metrics(recent: Sequence[Recent], games: Sequence[str] = ()) -> dict[str, float]:
    """Return metrics over the most recent episodes, which are NaN before the first episode ends. With several games,
    the score is that of `mean_score`, and `score/<game>` is each game's mean score in points."""
    scores, lengths, played = zip(*recent, strict=True) if recent else ((), (), ())
    return {
        "score": mean_score(games, scores, played),
        "score_std": std_of_scores(games, scores, played),
        "length": float(np.mean(lengths)) if lengths else float("nan"),
        **{f"score/{game}": score for game, score in score_by_game(games, scores, played).items()},
    }


class EpisodeTracker:
    """Stores the score and length of each environment's unfinished episode, and the last `window` finished episodes (by
    default 100).

    With `partial_starts`, each environment's first episode is not counted, because it began with random actions that no
    rollout contains. Environment b plays game number (first + b) % games.
    """

    def __init__(self, B: int, window: int = 100, partial_starts: bool = False, games: int = 1, first: int = 0):
        self._partial_starts = partial_starts
        self._games = (first + np.arange(B)) % games
        self.partial = np.full(B, partial_starts)
        self.score = np.zeros(B, np.float64)
        self.length = np.zeros(B, np.int64)
        self.recent: deque[Recent] = deque(maxlen=window)
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
                finished.append(Episode(score, int(self.length[b]), int(b), int(self._games[b])))
                self.numbers.extend([numbers] if numbers else [])
            self.score[ended[t]] = 0.0
            self.length[ended[t]] = 0
            self.partial[ended[t]] = False
        self._count(reward, rollout.valid, slice(begin, None))
        self.recent.extend((e.score, e.length, e.game) for e in finished)
        self.count += len(finished)
        return finished

    def _count(self, reward: np.ndarray, valid: np.ndarray, steps: slice) -> None:
        self.score += reward[steps].sum(0, dtype=np.float64)
        self.length += valid[steps].sum(0)

    def means(self) -> dict[str, float]:
        """Return the mean over the recent episodes of each number that the environments report."""
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
            "recent": [list(e) for e in self.recent],
            "numbers": list(self.numbers),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.score[:] = state["score"]
        self.length[:] = state["length"]
        self.partial[:] = state["partial"]
        self.count = state["count"]
        self.recent.clear()
        self.recent.extend((float(s), int(n), int(game)) for s, n, game in state["recent"])
        self.numbers.clear()
        self.numbers.extend(state["numbers"])
