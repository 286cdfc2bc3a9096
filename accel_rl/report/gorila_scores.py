"""Scores in the tables of Nair et al. 2015 (Gorila): the printed ones, and those of given runs.

Which files of a run are read, and what they contain, is described in final_scores.py. A run counts if its sweep is one
of the paper's, if it runs on a Gorila cluster, if it has final evaluations, or if it is evaluated from saved starts.
"""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

from accel_rl.config.registry import experiment_of
from accel_rl.envs.games import ATARI_49
from accel_rl.envs.games import scores as published_scores
from accel_rl.report.families import Settings
from accel_rl.report.final_scores import Result, Starts, final, mean_score, random_play, score
from accel_rl.report.fingerprint import differences, wanted
from accel_rl.report.papers import percent_of
from accel_rl.report.run import Run

PAPER = "Nair et al. 2015"
HUMAN_LEVEL = 75  # percent between random and human (section 6)
KINDS: dict[Starts, str] = {"noop": "null_op", "saved": "human"}
"""Our starts, and the paper's of that kind, as scores.json names them."""
NAMES = {"null_op": "null op starts", "human": "human starts"}
OURS = (
    "Our episodes begin at start points of ours, not at the paper's 100 points of a professional's play: those are not "
    "public. Human, DQN and Gorila from human starts are the paper's, from its points."
)


@cache
def gorila_published() -> dict[str, Any]:
    """Read gorila_published.json: tables 1 and 2 and the counts of the text, as printed."""
    return dict(json.loads(files("accel_rl.report").joinpath("gorila_published.json").read_text()))


def is_gorila(run: Run) -> bool:
    """Whether a run is shown in these tables."""
    settings = run.settings
    of_paper = bool(experiment_of("gorila", run.experiment)) or settings.get("cluster") == "gorila"
    from_saved = settings.get("evaluation.starts") == "saved"
    return run.game in ATARI_49 and (of_paper or from_saved or any(final(run, starts) is not None for starts in KINDS))


def gorila_differences(settings: Settings, kind: str) -> list[str]:
    """Return the settings in which a run differs from the paper's Gorila. kind: of starts, null_op or human."""
    return differences(settings, wanted("nair2015", "all", kind))


@dataclass(frozen=True)
class Score:
    """Our score in one game: the mean over the results of runs. random: our random play; NaN if it was not measured."""

    game: str
    kind: str
    runs: tuple[Run, ...]
    results: tuple[Result, ...]
    finals: int
    random: float

    @property
    def mean(self) -> float:
        return mean_score(self.results)

    @property
    def printed(self) -> dict[str, float]:
        return published_scores(self.kind)[self.game]

    @property
    def percent(self) -> float:
        """100 (score - random) / (human - random), with our random play if it was measured, else the paper's."""
        random = self.printed["random"] if math.isnan(self.random) else self.random
        return percent_of(self.mean, random, self.printed["human"])

    @property
    def percent_of_dqn(self) -> float:
        return percent_of_dqn(self.game, self.kind, self.mean)


def percent_of_dqn(game: str, kind: str, value: float) -> float:
    """100 (score - random) / (DQN - random), with the paper's random; 0 for random where DQN is not above it.

    The paper's figure 4 says so. NaN where DQN is not above 0 either.
    """
    row = published_scores(kind)[game]
    random = row["random"] if row["dqn"] > row["random"] else 0.0
    return percent_of(value, random, row["dqn"]) if row["dqn"] > random else math.nan


def own_scores(games: Mapping[str, Sequence[Run]], starts: Starts) -> dict[str, Score]:
    """Return {game: our score} of one setting from these starts, in the paper's order of games."""
    found = {}
    for game in ATARI_49:
        runs = [r for r in games.get(game, ()) if is_gorila(r)]
        scored = [(r, s) for r in runs if (s := score(r, starts)) is not None]
        if scored:
            random = mean_score([x for r in runs if (x := random_play(r, starts)) is not None])
            results = tuple(result for _, (result, _) in scored)
            finals = sum(is_final for _, (_, is_final) in scored)
            found[game] = Score(game, KINDS[starts], tuple(r for r, _ in scored), results, finals, random)
    return found
