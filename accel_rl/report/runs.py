"""Reads the runs of a report from run folders, and from CSV files of other tools."""

import csv
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np

from accel_rl.envs.make import MOST_NAMED
from accel_rl.metrics.nested import flat
from accel_rl.metrics.plot import Column, read_columns
from accel_rl.report.labels import labels
from accel_rl.results.trained_run import TrainedRun, no_column
from accel_rl.run.listed_runs import find_runs
from accel_rl.settings.train import read_settings
from accel_rl.text.errors import ConfigError, nearest

CSV_COLUMNS = ("game", "seed", "step", "score", "tool", "wall_s")


def read_runs(folders: Sequence[Path]) -> list[TrainedRun]:
    """Raises ConfigError for a damaged file."""
    runs = [_read(p) for p in find_runs(folders)]
    for run, label in zip(runs, labels([run.settings for run in runs]), strict=True):
        run.setting = label
    return [part for run in runs for part in _parts(run)]


def _parts(run: TrainedRun) -> list[TrainedRun]:
    """The run itself, or for an agent that plays several games, one run per game."""
    if len(games := run.games.split(",")) == 1 or not run.settings.get("env.game"):
        return [run]
    named = run.games if len(games) <= MOST_NAMED else f"{', '.join(games[:2])} and {len(games) - 2} more games"
    setting = f"{run.setting} on {named}"
    parts = [replace(run, game=game, part=i, setting=setting) for i, game in enumerate(games, 1)]
    for part in parts:
        part.deviations, part.episodes = no_column(), no_column()
        columns = part.columns(("score", "eval_score"))
        part.online, part.evaluations = columns["score"], columns["eval_score"]
    return parts


def _read(path: Path) -> TrainedRun:
    config = read_settings(path)
    try:
        settings = dict(flat(config))
        protocol = path / "protocol.json"
        rules = json.loads(protocol.read_text()).get("name", "") if protocol.exists() else ""
        length, seed = int(config["env_steps"]), int(config["seed"])
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as e:
        raise ConfigError(f"{path / 'config.json'} is no configuration of a run ({type(e).__name__}: {e})") from e
    names = ("score", "eval_score", "eval_score_std", "eval_episodes", "wall_s", "cpu_s", "joules", "steps_per_s")
    columns = read_columns(path, "env_steps", names)
    steps, wall = columns["wall_s"]
    run = TrainedRun(
        name=path.name,
        game=settings.get("env.game") or settings.get("env.id") or "?",
        seed=seed,
        setting="",
        online=columns["score"],
        evaluations=columns["eval_score"],
        deviations=columns["eval_score_std"],
        episodes=columns["eval_episodes"],
        clock=(steps, wall / 60),
        speeds=columns["steps_per_s"],
        env_steps=float(steps[-1]) if steps.size else 0.0,
        wall_s=float(wall[-1]) if wall.size else math.nan,
        cpu_s=_last(columns["cpu_s"]),
        joules=_last(columns["joules"]),
        algorithm=str(settings.get("algorithm", "?")),
        protocol=rules,
        settings=settings,
        experiment=_experiment(path.parent),
        path=path,
    )
    if run.env_steps < length:
        run.unfinished = f"{run.env_steps:,.0f} of {length:,} env steps"
    return run


def _last(column: Column) -> float:
    """The last value of a column, or NaN if the column has no value."""
    return float(column[1][-1]) if column[1].size else math.nan


@cache
def _experiment(folder: Path) -> str:
    """The experiment of a sweep's folder, such as stooke:figure_3, or "" for other folders."""
    try:
        return str(json.loads((folder / "sweep.json").read_text()).get("experiment", ""))
    except (OSError, ValueError, AttributeError):
        return ""


def read_csv(file: Path) -> list[TrainedRun]:
    """The results of another tool, with one measurement per row. Raises ConfigError with the number of the wrong line.
    The columns of the CSV file are game, seed, step, score, and optionally tool and wall_s."""
    try:
        with open(file, newline="") as f:
            reader = csv.DictReader(f)
            columns = list(reader.fieldnames or [])
            for column in CSV_COLUMNS[:4]:
                if column not in columns:
                    raise ConfigError(
                        f"{file}: column {column!r} is missing{nearest(column, columns)}; wanted: "
                        f"{', '.join(CSV_COLUMNS[:4])}, and optionally {', '.join(CSV_COLUMNS[4:])}"
                    )
            for column in columns:
                if column not in CSV_COLUMNS:
                    raise ConfigError(f"{file}: unknown column {column!r}{nearest(column, CSV_COLUMNS)}")
            series: dict[tuple[str, str, int], list[tuple[float, float, float]]] = {}
            for row in reader:
                key, values = _csv_row(row, file, reader.line_num)
                series.setdefault(key, []).append(values)
    except OSError as e:
        raise ConfigError(f"{file}: {e.strerror}") from e
    if not series:
        raise ConfigError(f"{file} has no row")
    runs = []
    for (tool, game, seed), measured in series.items():
        a = np.array(sorted(measured))
        runs.append(
            TrainedRun(
                name=f"{file.name} {game} {seed}",
                game=game,
                seed=seed,
                setting=tool,
                online=(a[:, 0], a[:, 1]),
                evaluations=no_column(),
                clock=(a[:, 0], a[:, 2] / 60) if np.isfinite(a[:, 2]).all() else no_column(),
                env_steps=float(a[-1, 0]),
                wall_s=float(a[-1, 2]),
                algorithm=tool,
            )
        )
    return runs


def _csv_row(
    row: Mapping[str, str | None], file: Path, line: int
) -> tuple[tuple[str, str, int], tuple[float, float, float]]:
    try:
        if not row["game"] or None in row.values():
            raise ValueError("a cell is missing")
        key = (row.get("tool") or file.stem, str(row["game"]), int(row["seed"] or ""))
        values = (float(row["step"] or ""), float(row["score"] or ""), float(row.get("wall_s") or math.nan))
        if not (math.isfinite(values[0]) and math.isfinite(values[1])):
            raise ValueError("step and score must be finite")
    except ValueError as e:
        raise ConfigError(f"{file}, line {line}: {e}") from e
    return key, values
