"""Scores of a run by the starts of its episodes, read from its folder.

    final/noop.json, final/saved.json                  the final evaluations: accel-rl evaluate RUN --best --save
    final/random-noop.json, final/random-saved.json    random play at 10 Hz: accel-rl evaluate RUN --random --save
    evaluations/*.json                                 those during training

Each is an object with env_steps, score_mean, episodes and protocol. The protocol's `starts` is "saved" for saved
starts; without it, episodes begin with no-ops. `wall_s` (seconds since the run's start) is optional in evaluations/;
without it the clock of metrics.csv counts.
"""

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Literal

import numpy as np

from accel_rl.report.run import Run
from accel_rl.system.errors import ConfigError

Starts = Literal["noop", "saved"]


@dataclass(frozen=True)
class Result:
    """One evaluation. hours: since the run's start; NaN if unknown. points: checksum of its saved starts, or ""."""

    score: float
    episodes: int
    env_steps: int
    starts: Starts
    hours: float = math.nan
    points: str = ""
    agent: str = ""


def final(run: Run, starts: Starts) -> Result | None:
    """Return the final evaluation of a run from these starts; None if there is none."""
    return _one(run, starts, starts)


def random_play(run: Run, starts: Starts) -> Result | None:
    """Return the evaluation of random play at 10 Hz in a run's game from these starts; None if there is none."""
    return _one(run, f"random-{starts}", starts)


def during_training(run: Run, starts: Starts) -> list[Result]:
    """Return the evaluations of a run during its training from these starts, in order."""
    found = [] if run.path is None else [_read(p) for p in sorted((run.path / "evaluations").glob("*.json"))]
    return [_timed(r, run) for r in found if r.starts == starts and not math.isnan(r.score)]


def score(run: Run, starts: Starts) -> tuple[Result, bool] | None:
    """Return the result that counts for a run, and whether it is a final evaluation.

    Without a final evaluation it is the best one during training, whose mean is a little too high since it was chosen
    for being high. None if the run has neither.
    """
    if (found := final(run, starts)) is not None:
        return found, True
    there = during_training(run, starts)
    return (max(there, key=lambda r: r.score), False) if there else None


def mean_score(results: Sequence[Result]) -> float:
    """Return the mean score; NaN without results."""
    return float(np.mean([r.score for r in results])) if results else math.nan


def _one(run: Run, name: str, starts: Starts) -> Result | None:
    path = run.path / "final" / f"{name}.json" if run.path is not None else None
    if path is None or not path.exists():
        return None
    found = _read(path)
    if found.starts != starts:
        raise ConfigError(f"{path} is of {found.starts} starts; wanted {starts}")
    return None if math.isnan(found.score) else found


def _timed(result: Result, run: Run) -> Result:
    if not math.isnan(result.hours):
        return result
    hours = float(run.minutes(np.array([result.env_steps]))[0]) / 60
    return Result(**{**result.__dict__, "hours": hours})


@cache
def _read(path: Path) -> Result:
    try:
        found: dict[str, Any] = json.loads(path.read_text())
        protocol = found["protocol"]
        return Result(
            score=float(found["score_mean"]),
            episodes=int(found["episodes"]),
            env_steps=int(found["env_steps"]),
            starts="saved" if protocol.get("starts", "noop") == "saved" else "noop",
            hours=float(found.get("wall_s", math.nan)) / 3600,
            points=str(protocol.get("starts_sha256", "")),
            agent=str(found.get("agent", "")),
        )
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as e:
        raise ConfigError(f"{path} is no evaluation ({type(e).__name__}: {e})") from e
