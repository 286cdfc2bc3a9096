"""The scores for the tables of Nair et al. 2015 (Gorila): the published scores, and those of given runs.

The scores of a run are read from the following files of the run's folder:

    | final/noop.json, final/saved.json                  the final evaluations: accel-rl evaluate RUN --best --save
    | final/random-noop.json, final/random-saved.json    random play at 10 Hz: accel-rl evaluate RUN --random --save
    | evaluations/*.json                                 evaluations during training

Each file is an object with env_steps, score_mean, episodes and protocol. The protocol's `starts` is "saved" for saved
starts; otherwise episodes begin with no-ops. An evaluation may contain `wall_s`, the seconds since the run's start;
without `wall_s`, the times in metrics.csv are used.

A run belongs in the tables if it is part of an experiment of this paper, was trained on a Gorila cluster, or was
evaluated at its end or from saved starts.
"""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Literal

import numpy as np

from accel_rl.envs.atari_games import ATARI_49
from accel_rl.envs.atari_games import scores as published_scores
from accel_rl.papers.published import percent_of, wanted
from accel_rl.results.run_settings import Settings, differences
from accel_rl.results.trained_run import TrainedRun
from accel_rl.settings.registry import experiment_of
from accel_rl.text.errors import ConfigError

Starts = Literal["noop", "saved"]


@dataclass(frozen=True)
class RunEvaluation:
    """One evaluation of a run. `hours` is the time since the run's start, or NaN if unknown. `points` is the checksum
    of the saved starts, or ""."""

    score: float
    episodes: int
    env_steps: int
    starts: Starts
    hours: float = math.nan
    points: str = ""
    agent: str = ""


def final(run: TrainedRun, starts: Starts) -> RunEvaluation | None:
    return _one(run, starts, starts)


def random_play(run: TrainedRun, starts: Starts) -> RunEvaluation | None:
    """The evaluation of random play at 10 Hz that is stored in the run's folder."""
    return _one(run, f"random-{starts}", starts)


def during_training(run: TrainedRun, starts: Starts) -> list[RunEvaluation]:
    """The evaluations during training, in order."""
    result = [] if run.path is None else [_read(p) for p in sorted((run.path / "evaluations").glob("*.json"))]
    return [_timed(r, run) for r in result if r.starts == starts and not math.isnan(r.score)]


def score(run: TrainedRun, starts: Starts) -> tuple[RunEvaluation, bool] | None:
    """Return the evaluation that the tables use, and whether this evaluation is a final one. If there is no final
    evaluation, the best evaluation during training is used, although its mean is slightly too high."""
    if (result := final(run, starts)) is not None:
        return result, True
    in_training = during_training(run, starts)
    return (max(in_training, key=lambda r: r.score), False) if in_training else None


def mean_score(results: Sequence[RunEvaluation]) -> float:
    """The mean score of the evaluations, or NaN if there are no evaluations."""
    return float(np.mean([r.score for r in results])) if results else math.nan


def _one(run: TrainedRun, name: str, starts: Starts) -> RunEvaluation | None:
    path = run.path / "final" / f"{name}.json" if run.path is not None else None
    if path is None or not path.exists():
        return None
    result = _read(path)
    if result.starts != starts:
        raise ConfigError(f"{path} is of {result.starts} starts; wanted {starts}")
    return None if math.isnan(result.score) else result


def _timed(result: RunEvaluation, run: TrainedRun) -> RunEvaluation:
    if not math.isnan(result.hours):
        return result
    hours = float(run.minutes(np.array([result.env_steps]))[0]) / 60
    return RunEvaluation(**{**result.__dict__, "hours": hours})


@cache
def _read(path: Path) -> RunEvaluation:
    try:
        result: dict[str, Any] = json.loads(path.read_text())
        protocol = result["protocol"]
        return RunEvaluation(
            score=float(result["score_mean"]),
            episodes=int(result["episodes"]),
            env_steps=int(result["env_steps"]),
            starts="saved" if protocol.get("starts", "noop") == "saved" else "noop",
            hours=float(result.get("wall_s", math.nan)) / 3600,
            points=str(protocol.get("starts_sha256", "")),
            agent=str(result.get("agent", "")),
        )
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as e:
        raise ConfigError(f"{path} is no evaluation ({type(e).__name__}: {e})") from e


TITLE = "Nair et al. 2015"
HUMAN_LEVEL = 75  # A game is at human level if its human-normalized score is at least 75 % (section 6).
KINDS: dict[Starts, str] = {"noop": "null_op", "saved": "human"}
"""`KINDS` maps the kinds of starts in this project's evaluations to the corresponding names in scores.json."""
NAMES = {"null_op": "null op starts", "human": "human starts"}
OURS = (
    "Our episodes begin at start points of ours, not at the paper's 100 points of a professional's play: those are not "
    "public. Human, DQN and Gorila from human starts are the paper's, from its points."
)


def is_gorila(run: TrainedRun) -> bool:
    settings = run.settings
    of_paper = bool(experiment_of("gorila", run.experiment)) or settings.get("cluster") == "gorila"
    from_saved = settings.get("evaluation.starts") == "saved"
    alone = run.game in ATARI_49 and not run.part
    return alone and (of_paper or from_saved or any(final(run, starts) is not None for starts in KINDS))


def gorila_differences(settings: Settings, kind: str) -> list[str]:
    """Settings in which a run differs from the paper's Gorila. `kind` is the kind of starts, null_op or human."""
    return differences(settings, wanted("gorila", "all", kind))


@dataclass(frozen=True)
class GameScore:
    """This project's score in one game, the mean over runs. `random` is the score of random play in this project, or
    NaN if random play was not measured."""

    game: str
    kind: str
    runs: tuple[TrainedRun, ...]
    results: tuple[RunEvaluation, ...]
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
        """100 (score - random) / (human - random). The random score was measured in this project, or is the paper's if
        no random play was measured."""
        random = self.printed["random"] if math.isnan(self.random) else self.random
        return percent_of(self.mean, random, self.printed["human"])

    @property
    def percent_of_dqn(self) -> float:
        return percent_of_dqn(self.game, self.kind, self.mean)


def percent_of_dqn(game: str, kind: str, value: float) -> float:
    """100 (score - random) / (DQN - random), with the paper's random score. If DQN's score is not above the random
    score, the result is 100 score / DQN, as in the paper's figure 4. Returns NaN if DQN's score is not above 0."""
    row = published_scores(kind)[game]
    random = row["random"] if row["dqn"] > row["random"] else 0.0
    return percent_of(value, random, row["dqn"]) if row["dqn"] > random else math.nan


def own_scores(games: Mapping[str, Sequence[TrainedRun]], starts: Starts) -> dict[str, GameScore]:
    """{game: score} of the runs of one setting, in the paper's order of games."""
    scores = {}
    for game in ATARI_49:
        runs = [r for r in games.get(game, ()) if is_gorila(r)]
        scored = [(r, s) for r in runs if (s := score(r, starts)) is not None]
        if scored:
            random = mean_score([x for r in runs if (x := random_play(r, starts)) is not None])
            results = tuple(result for _, (result, _) in scored)
            finals = sum(is_final for _, (_, is_final) in scored)
            scores[game] = GameScore(game, KINDS[starts], tuple(r for r, _ in scored), results, finals, random)
    return scores
