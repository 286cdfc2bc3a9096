"""The table of costs lists the time, machine, CPU time and energy of runs, and the price of 200 M frames."""

import json
import math
import statistics as stats
from collections.abc import Sequence
from typing import Any

from accel_rl.results.table import Table, number
from accel_rl.results.trained_run import FULL_LENGTH, BySetting, Run

COLUMNS = ["setting", "game", "runs", "env steps", "hours", "machine", "cores", "CPU-seconds", "joules"]


def costs_table(settings: BySetting, price: float) -> Table:
    """Build the table of costs, with a row for each setting and game. `price` is the price of a core-hour, or 0."""
    rows = []
    for setting, games in settings.items():
        for game, runs in sorted(games.items()):
            timed = [r for r in runs if r.env_steps and r.wall_s > 0]
            if not timed:
                continue
            # The hours of a run that moved between machines are of no machine.
            alike = [r for r in timed if len(_machines(r)) < 2]
            prices = [_price(r, price) for r in alike]
            row = [
                setting,
                game,
                str(len(timed)),
                number(stats.mean(r.env_steps for r in timed), 0),
                number(stats.mean(r.wall_s for r in timed) / 3600),
                "; ".join(dict.fromkeys(m for r in timed for m in _machines(r))),
                ", ".join(dict.fromkeys(str(n) for r in timed if (n := _cores(r)))),
                number(_mean([r.cpu_s for r in timed]), 0),
                number(_mean([r.joules for r in timed]), 0),
                number(FULL_LENGTH / _mean([r.steps_per_s for r in alike]) / 3600),
            ]
            rows.append([*row, number(_mean(prices), 2)] if price else row)
    columns = [*COLUMNS, "hours for 200 M frames", *(["price of 200 M frames"] if price else [])]
    note = (
        "Means over runs, unfinished ones until now. Hours: wall time without pauses, evaluations and other work on "
        "these cores included; for 200 M frames only of runs on one machine. CPU-seconds: of all processes of a run. "
        "Joules: of the machine's CPU packages, with everything that ran on them. Both are empty if a part of the run "
        "did not record them. 200 M frames are 50 M env steps."
    )
    if price:
        note += f" Price: hours for 200 M frames x cores x {price:g} per core-hour; none for runs on a GPU."
    return Table("costs", "Costs", columns, rows, note)


def _mean(values: Sequence[float]) -> float:
    """Return the mean, or NaN if a value is unknown."""
    return stats.mean(values) if values else math.nan


def _price(run: Run, price: float) -> float:
    """Return the price of 200 M frames, or NaN if the number of cores is unknown or the run used a GPU."""
    cores = _cores(run)
    on_gpu = any(x.get("gpus") for x in _launches(run)) and run.settings.get("device") != "cpu"
    return run.hours * cores * price if cores and not on_gpu else math.nan


def _cores(run: Run) -> int:
    """Return the number of cores of the run, or 0 if it is unknown."""
    if chosen := run.settings.get("sampler.cores"):
        return len(chosen)
    return int(next((x["cores"] for x in reversed(_launches(run)) if x.get("cores")), 0))


def _machines(run: Run) -> list[str]:
    return list(dict.fromkeys(", ".join([x["cpu"], *x.get("gpus", [])]) for x in _launches(run) if x.get("cpu")))


def _launches(run: Run) -> list[dict[str, Any]]:
    """Return the launches of a run (`runners.launches`), or an empty list if they are unknown."""
    try:
        launches = json.loads((run.path / "launches.json").read_text()) if run.path else []
    except (OSError, ValueError):
        return []
    return [x for x in launches if isinstance(x, dict)]
