"""Decides which episodes an evaluation counts, so that the mean score is not biased. Defines the results of evaluations
and runs."""

from dataclasses import dataclass, field, fields
from typing import Any

import numpy as np

from accel_rl.envs.several_games import mean_score, score_by_game, std_of_scores
from accel_rl.samplers.episodes import Episode
from accel_rl.text.counts import counted


@dataclass(frozen=True, slots=True)
class Evaluation:
    """Raw scores and lengths (in env steps) of complete evaluation episodes, and the settings with which the episodes
    were played (`protocol`). If the agent plays several `games`, episode i is of games[played[i]], and `mean` and `std`
    are in percent of human."""

    scores: tuple[float, ...]
    lengths: tuple[int, ...]
    protocol: dict[str, Any]
    games: tuple[str, ...] = ()
    played: tuple[int, ...] = ()

    def __str__(self) -> str:
        unit = " % of human" if len(self.games) > 1 else ""
        return f"{self.mean:.1f} +- {self.std:.1f}{unit} ({len(self.scores)} episodes)"

    @property
    def text(self) -> str:
        """A text for messages. If the agent plays more than 8 games, the text omits the scores of the games."""
        means = [f"{game} {mean:.2f}" for game, mean in self.by_game.items()]
        result = f"score {self.mean:.2f} +- {self.std:.2f}{' % of human' if means else ''} over "
        return result + counted(len(self.scores), "episode") + (f" ({', '.join(means)})" if 0 < len(means) < 9 else "")

    def __repr__(self) -> str:
        return f"Evaluation(mean={self.mean:.2f}, std={self.std:.2f}, episodes={len(self.scores)})"

    @property
    def mean(self) -> float:
        return mean_score(self.games, self.scores, self.played)

    @property
    def std(self) -> float:
        return std_of_scores(self.games, self.scores, self.played)

    @property
    def by_game(self) -> dict[str, float]:
        """The mean score of each of several games, in points. Return {} for a single game."""
        return score_by_game(self.games, self.scores, self.played)

    def to_dict(self) -> dict[str, Any]:
        of_games = {"games": list(self.games), "played": list(self.played), "score_by_game": self.by_game}
        return {
            "score_mean": self.mean,
            "score_std": self.std,
            "episodes": len(self.scores),
            "steps": sum(self.lengths),
            "scores": list(self.scores),
            "lengths": list(self.lengths),
            "protocol": self.protocol,
            **(of_games if len(self.games) > 1 else {}),
        }

    @classmethod
    def from_dict(cls, d: dict[str, Any]) -> "Evaluation":
        of_games = (tuple(d.get(name, ())) for name in ("games", "played"))
        return cls(tuple(d["scores"]), tuple(d["lengths"]), d["protocol"], *of_games)


class Quota:
    """Decides which environments of an evaluation start further episodes.

    In an evaluation by steps, each environment starts episodes until it has made its share of the steps, and then
    finishes its last episode. If many evaluations by steps are pooled, the mean score of their episodes is unbiased
    (Wald's equation). The mean of a single evaluation by steps is biased towards long episodes by about 1 / (number of
    episodes). If unfinished episodes were omitted, the mean would have a stronger bias towards short episodes. In an
    evaluation by episodes, each environment plays a fixed number of episodes, which has no bias.
    """

    def __init__(self, B: int, steps: int, episodes: int):
        self._used = np.zeros(B, np.int64)
        self._played = np.zeros(B, np.int64)
        share, rest = divmod(episodes, B)
        self._episodes = np.array([share + (b < rest) for b in range(B)]) if episodes else None
        self._steps = max(1, -(-steps // B))
        self.idle = np.zeros(B, bool) if self._episodes is None else self._episodes == 0

    def count(self, finished: list[Episode]) -> list[Episode]:
        counted = []
        for e in finished:
            if self.idle[e.b]:
                continue
            counted.append(e)
            self._used[e.b] += e.length
            self._played[e.b] += 1
            if self._episodes is None:
                self.idle[e.b] = self._used[e.b] >= self._steps
            else:
                self.idle[e.b] = self._played[e.b] >= self._episodes[e.b]
        return counted


@dataclass(slots=True)
class Result:
    env_steps: int
    score: float  # `score` is the mean score of the last training episodes.
    evaluation: Evaluation | None
    exit_code: int  # The run's exit code is 0, or 128 + the number of the signal that stopped the run.
    wall_s: float
    # `shares` maps each activity of this process to its share of the time, and is empty if activities overlap.
    shares: dict[str, float] = field(default_factory=dict)

    def __str__(self) -> str:
        evaluation = "" if self.evaluation is None else f", evaluation {self.evaluation}"
        return f"{self.env_steps:,} env steps in {self.wall_s:.0f} s, score {self.score:.1f}{evaluation}"

    def to_dict(self) -> dict[str, Any]:
        values = {f.name: getattr(self, f.name) for f in fields(self)}
        return {**values, "evaluation": None if self.evaluation is None else self.evaluation.to_dict()}

    @classmethod
    def from_dict(cls, d: dict[str, Any]) -> "Result":
        e = d["evaluation"]
        return cls(**{**d, "evaluation": Evaluation.from_dict(e) if e else None})
