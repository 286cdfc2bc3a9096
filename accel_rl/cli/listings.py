"""The commands `games` and `runs` print lists, without importing torch."""

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from accel_rl.envs.atari_games import table
from accel_rl.files import folder_lock
from accel_rl.metrics.progress import human_score, human_time, of_total
from accel_rl.parsing.arguments import command, stdout
from accel_rl.run.listed_runs import Progress, find_runs, read_progress, updates_in
from accel_rl.settings.config_file import read_plain
from accel_rl.text.counts import Count, counted
from accel_rl.text.errors import ConfigError, nearest
from accel_rl.text.output import escaped


def games_command(argv: list[str]) -> int:
    if argv and argv[0] not in ("-h", "--help"):
        raise ConfigError(f"accel-rl games takes no arguments; got {argv[0]!r}")
    stdout("\n".join(table()))
    return 0


COLUMNS = ("run", "algorithm", "environment", "seed", "env steps", "score", "age", "state")
RIGHT = ("seed", "env steps", "score", "age")
OF_EACH = ("run_dir", "seed", "format")
"""Settings that are not compared, because they differ in every run, or are columns of the list."""
MOST_DIFFERENCES = 20
FUTURE_S = 60.0
"""On a file server with another clock, a run's newest row may be written later than now. If the newest row is less than
FUTURE_S in the future, its age is displayed as 0."""


@dataclass(frozen=True)
class RunsOptions:
    where: tuple[str, ...] = field(default=(), metadata={"appended": True})
    """List only the runs with this setting, such as `--where algorithm=ppo` or `--where learning-rate=1e-3`, or in this
    state, such as `--where state=running`; may be repeated."""
    sort: Literal["name", "score", "steps", "age"] = "name"
    """Order of the list: by name, by score (highest first), by env steps (most first), or by the time of the newest row
    of metrics.csv (newest first)."""
    most: Count = 100
    """Maximum number of runs to list."""


@dataclass(frozen=True, slots=True)
class ListedRun:
    """The settings and the progress of a run. `age_s` is the time since the last row of its metrics.csv was written."""

    name: str
    settings: Mapping[str, Any]
    progress: Progress
    age_s: float
    state: str

    @classmethod
    def read(cls, path: Path, top: Path) -> "ListedRun":
        """The run's name is the path of its folder relative to `top`. Raises ConfigError."""
        settings = read_plain(path)
        progress = read_progress(path)
        files = [file for name in ("metrics.csv", "config.json") if (file := path / name).exists()]
        age = time.time() - files[0].stat().st_mtime
        name = str(path.relative_to(top)) if top in path.parents else path.name
        return cls(name, settings, progress, age, _state(path, settings, progress))

    def cells(self) -> list[str]:
        s = self.settings
        # The file's time may be in the future, if another machine wrote the file or if the clock was set back.
        age = human_time(max(self.age_s, 0)) if self.age_s > -FUTURE_S else "in the future"
        cells = [
            self.name, str(s["algorithm"]), str(s.get("env.game") or s.get("env.id")), str(s["seed"]),
            of_total(self.progress.env_steps, s["env_steps"]), human_score(self.progress.score), age, self.state,
        ]  # fmt: skip
        return [escaped(cell) for cell in cells]


def _state(path: Path, settings: Mapping[str, Any], progress: Progress) -> str:
    """`running` (a process holds the run's lock), `finished` or `stopped`."""
    if folder_lock.holder(path) is not None:
        return "running"
    if updates := updates_in(settings):
        return "finished" if progress.updates >= updates else "stopped"
    return "finished" if progress.env_steps >= settings["env_steps"] else "stopped"


def selected(runs: Sequence[ListedRun], conditions: Sequence[str]) -> list[ListedRun]:
    """The runs that meet all conditions NAME=VALUE. Raises ConfigError for an unknown name."""
    result = list(runs)
    for condition in conditions:
        given, equals, value = condition.partition("=")
        if not equals:
            raise ConfigError(f"--where {condition}: must be NAME=VALUE, such as algorithm=ppo")
        if given == "state":
            result = [run for run in result if run.state == value]
            continue
        names = _full_names(given.removeprefix("--").replace("-", "_"), runs)
        result = [run for run in result if any(_equal(run.settings[n], value) for n in names if n in run.settings)]
    return result


def _full_names(name: str, runs: Sequence[ListedRun]) -> list[str]:
    """The settings whose full or short name is `name`. Raises ConfigError if no run has such a setting."""
    known = dict.fromkeys(n for run in runs for n in run.settings)
    result = [n for n in known if n == name] or [n for n in known if n.endswith(f".{name}")]
    if name == "env":
        return ["env.id"]
    if not result:
        short = [n.rpartition(".")[2] for n in known]
        raise ConfigError(f"--where {name}: no run has this setting{nearest(name, ['state', *known, *short])}")
    return result


def _equal(value: Any, text: str) -> bool:
    if isinstance(value, int | float) and not isinstance(value, bool):
        try:
            return float(text) == value
        except ValueError:
            return False
    return str(value).lower() == text.lower()


def differences(runs: Sequence[ListedRun]) -> list[str]:
    """A line for each setting that all runs have, but with different values. Each line contains the number of runs with
    each value of the setting."""
    lines = []
    for name in runs[0].settings if runs else ():
        if name in OF_EACH or not all(name in run.settings for run in runs):
            continue
        counts: dict[str, int] = {}
        for run in runs:
            value = str(run.settings[name])
            counts[value] = counts.get(value, 0) + 1
        if len(counts) > 1:
            values = ", ".join(f"{value or '-'} ({counted(n, 'run')})" for value, n in counts.items())
            lines.append(escaped(f"  --{name.replace('_', '-')}: {values}"))
    return lines


def _ordered(runs: list[ListedRun], by: str) -> list[ListedRun]:
    keys: dict[str, Any] = {
        "name": lambda run: run.name,
        "score": lambda run: -run.progress.score if math.isfinite(run.progress.score) else math.inf,
        "steps": lambda run: -run.progress.env_steps,
        "age": lambda run: run.age_s,
    }
    return sorted(runs, key=keys[by])


def _listing(rows: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(len(row[i]) for row in [COLUMNS, *rows]) for i in range(len(COLUMNS))]
    return [
        "  ".join(
            cell.rjust(width) if name in RIGHT else cell.ljust(width)
            for cell, width, name in zip(row, widths, COLUMNS, strict=True)
        ).rstrip()
        for row in [COLUMNS, *rows]
    ]


def runs_command(argv: list[str]) -> int:
    does = "List the runs in folders, by default in runs, and the settings in which they differ."
    words, chosen = command(RunsOptions, argv, "accel-rl runs [FOLDER ...]", does, many=True)
    folders = [Path(word).expanduser() for word in words or ["runs"]]
    folder_of = {path: folder for folder in folders for path in find_runs([folder])}
    runs = _ordered(
        selected([ListedRun.read(path, folder) for path, folder in folder_of.items()], chosen.where), chosen.sort
    )
    listed = runs[: chosen.most]
    stdout("\n".join(_listing([run.cells() for run in listed])))
    if len(listed) < len(runs):
        stdout(f"and {len(runs) - len(listed)} more (--most)")
    if lines := differences(runs):
        stdout("settings that differ:")
        stdout("\n".join(lines[:MOST_DIFFERENCES]))
        if len(lines) > MOST_DIFFERENCES:
            stdout(f"  and {len(lines) - MOST_DIFFERENCES} more")
    return 0
