"""The machine, time, CPU time and energy of each launch of the runs, and the price of 200 M frames."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from accel_rl.envs.atari_games import GAMES
from accel_rl.metrics.plot import Column
from accel_rl.results.table import Table, number
from accel_rl.results.trained_run import FULL_LENGTH, BySetting, TrainedRun
from accel_rl.run import launches
from accel_rl.run.run_folder import RunFolder

JOULES_PER_KWH = 3.6e6
TIMES = ("wall_s", "paused_s", "cpu_s", "joules", "gpu_joules", "steps_per_s")
COLUMNS = ["setting", "game", "seed", "launch", "machine", "cores", "revision", "env steps", "hours", "paused hours"]
COLUMNS += ["env steps/s", "hours for 200 M frames", "CPU-seconds", "CPU kWh", "GPU kWh", "score"]


@dataclass(frozen=True)
class LaunchCosts:
    """The part of a run that one launch made: the env steps after `first`, up to `last`. `recorded` is the launch's
    entry in launches.json. The launch is number `number` (from 1) of `count` launches. `columns` are the columns TIMES
    of the run's metrics, whose values, except steps_per_s, are totals since the beginning of the run."""

    run: TrainedRun
    recorded: Mapping[str, Any]
    number: int
    count: int
    first: float
    last: float
    columns: Mapping[str, Column]

    def spent(self, name: str) -> float:
        """Increase of a column during the launch, or NaN if the launch did not record the column."""
        steps, values = self.columns[name]
        in_launch = (steps > self.first) & (steps <= self.last)
        if not in_launch.any():
            return math.nan
        before = values[steps <= self.first]
        return float(values[in_launch][-1] - (before[-1] if before.size else 0.0))

    @property
    def steps_per_s(self) -> float:
        """The median over the launch's rows, which other programs on the machine affect less than the mean."""
        steps, rates = self.columns["steps_per_s"]
        rates = rates[(steps > self.first) & (steps <= self.last)]
        return float(np.median(rates)) if rates.size else math.nan

    @property
    def hours_of_200_m_frames(self) -> float:
        """Hours for 200 M frames at the launch's rate, or NaN if the environment is not an Atari game."""
        return FULL_LENGTH / self.steps_per_s / 3600 if self.run.game in GAMES else math.nan

    @property
    def cores(self) -> int:
        """Number of cores that the launch could use, or 0 if unknown."""
        return len(self.run.settings.get("sampler.cores") or ()) or int(self.recorded.get("cores") or 0)

    @property
    def score(self) -> float:
        """The score of the last evaluation before the end of the launch, or NaN if there was no evaluation or the agent
        plays several games."""
        if self.run.part:
            return math.nan
        steps, scores = (x[~self.run.short] for x in self.run.evaluations)
        return float(scores[steps <= self.last][-1]) if (steps <= self.last).any() else math.nan

    def price(self, core_hour: float) -> float:
        """Price of 200 M frames, or NaN if the number of cores is unknown or the launch used a GPU."""
        on_gpu = self.recorded.get("gpus") and self.run.settings.get("device") != "cpu"
        return self.hours_of_200_m_frames * self.cores * core_hour if self.cores and not on_gpu else math.nan

    def row(self) -> list[str]:
        return [
            self.run.setting,
            self.run.games,
            str(self.run.seed),
            f"{self.number} of {self.count}",
            launches.machine(self.recorded),
            str(self.cores or ""),
            launches.revision(self.recorded)[:8],
            number(self.last - self.first, 0),
            number(self.spent("wall_s") / 3600, 3),
            number(self.spent("paused_s") / 3600, 3),
            number(self.steps_per_s, 0),
            number(self.hours_of_200_m_frames),
            number(self.spent("cpu_s"), 0),
            number(self.spent("joules") / JOULES_PER_KWH, 4),
            number(self.spent("gpu_joules") / JOULES_PER_KWH, 4),
            number(self.score),
        ]


def launch_costs(run: TrainedRun) -> Iterator[LaunchCosts]:
    """The launches that made env steps. A run without launches.json counts as one launch."""
    recorded = launches.read(RunFolder(run.path)) if run.path else []
    columns = run.columns(TIMES)
    if not run.path:
        columns["wall_s"] = run.clock[0], 60 * run.clock[1]
    for i, first, last in launches.parts(recorded, run.env_steps):
        launch = recorded[i] if recorded else {}
        yield LaunchCosts(run, launch, i + 1, max(1, len(recorded)), first, last, columns)


def costs_table(settings: BySetting, price: float) -> Table:
    """A table with a row for each launch of each run. `price` is the price of a core-hour, or 0."""
    by_game = [r for games in settings.values() for _, same in sorted(games.items()) for r in same]
    runs: Sequence[TrainedRun] = [r for r in by_game if r.part <= 1]
    rows = []
    for launch in (x for run in runs for x in launch_costs(run)):
        if launch.spent("wall_s") > 0:
            rows.append([*launch.row(), *([number(launch.price(price), 2)] if price else [])])
    columns = [*COLUMNS, *(["price of 200 M frames"] if price else [])]
    note = (
        "A row for each launch, which is the part of a run from its start or a resume to its end. Hours: wall time "
        "without pauses, evaluations and other work on these cores included. Env steps/s: median of the launch's rows "
        "of metrics.csv, without evaluations, from which the hours for 200 M frames (50 M env steps) follow. "
        "CPU-seconds: of all processes of a run. CPU kWh: energy of the machine's CPU packages (RAPL), and GPU kWh: of "
        "the GPU that trains (NVML), with everything that ran on them. A cell is empty if the launch did not record "
        "it. Score: the run's last evaluation until the end of the launch."
    )
    if price:
        note += f" Price: hours for 200 M frames x cores x {price:g} per core-hour; none for launches on a GPU."
    return Table("costs", "Costs", columns, rows, note).without_empty(["hours for 200 M frames"])
