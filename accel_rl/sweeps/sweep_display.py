"""The table of runs that a running sweep displays. The command `accel-rl status` displays this table in another
terminal."""

import contextlib
import math
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.box import HEAVY_HEAD
from rich.console import Console
from rich.live import Live
from rich.table import Table
from rich.text import Text

from accel_rl.metrics.progress import human_score, human_time, of_total
from accel_rl.parsing.arguments import command
from accel_rl.run.listed_runs import Progress, read_progress
from accel_rl.sweeps.script_folder import opened
from accel_rl.sweeps.sweep_folder import Record, SweepFolder
from accel_rl.text.counts import counted
from accel_rl.text.errors import ended
from accel_rl.text.output import escaped, escaped_lines

ORDER = ("running", "failed", "stopped", "waiting", "pruned", "done")
PLAIN_INTERVAL_S = 30.0
MOST_ROWS = 40
PLAIN_WIDTH = 200
"""Width of the table in a pipe or file, where the library rich would otherwise wrap at 80 columns."""


class View:
    """Reads the progress of a sweep's runs from their folders."""

    def __init__(self, folder: SweepFolder):
        self.folder = folder
        self.lengths = {name: folder.env_steps(name) for name in folder.names}
        self._stamps: dict[str, tuple[float, Progress]] = {}

    def progress(self, name: str) -> Progress:
        file = self.folder.run(name) / "metrics.csv"
        stamp = file.stat().st_mtime if file.exists() else 0.0
        if self._stamps.get(name, (None,))[0] != stamp:
            self._stamps[name] = (stamp, read_progress(self.folder.run(name)))
        return self._stamps[name][1]

    def left_s(self, records: Mapping[str, Record]) -> float:
        """Estimate the time in seconds until all runs of the sweep are done. Return NaN if no running run has reported
        its speed yet."""
        now = {n: self.progress(n) for n in self.lengths}
        rates = [now[n].steps_per_s for n, r in records.items() if r.status == "running"]
        rate = sum(x for x in rates if math.isfinite(x))
        pending = ("running", "waiting", "stopped")
        steps = sum(self.lengths[n] - now[n].env_steps for n, r in records.items() if r.status in pending)
        return max(0, steps) / rate if rate else math.nan

    def summary(self, records: Mapping[str, Record]) -> str:
        counts = Counter(r.status for r in records.values())
        parts = [f"{counts[s]} {s}" for s in ORDER if counts[s]]
        rate = sum(
            p.steps_per_s
            for n, r in records.items()
            if r.status == "running" and math.isfinite((p := self.progress(n)).steps_per_s)
        )
        left = f"; {rate:,.0f} steps/s; {human_time(self.left_s(records))} left" if counts["running"] else ""
        if not any(self.lengths.values()):  # Scripts of `accel-rl launch` have no length.
            left = ""
        if left and math.isfinite(deadline_s := self.folder.deadline_s()):
            left = f"; {rate:,.0f} steps/s; {human_time(deadline_s)} to the deadline"
        return f"{counted(len(records), 'run')}: {', '.join(parts)}{left}"

    def table(self, records: Mapping[str, Record], has_box: bool = True) -> Table:
        box = HEAVY_HEAD if has_box else None
        title = Text(escaped(str(self.folder.path)))
        table = Table(title=title, caption=self.summary(records), title_justify="left", box=box)
        for column in ("run", "state", "slot", "env steps", "steps/s", "score", "left", "tries"):
            left = column in ("run", "state", "slot")
            # On a narrow terminal, only the runs' names are wrapped.
            table.add_column(column, justify="left" if left else "right", no_wrap=column != "run", overflow="fold")
        rows = sorted(records, key=lambda n: ORDER.index(records[n].status))
        short = differing_parts(list(records))
        for name in rows[:MOST_ROWS]:
            # In a `Text`, rich does not interpret markup such as [link=...].
            table.add_row(*(Text(escaped(cell)) for cell in (short[name], *self.cells(name, records[name]))))
        if len(rows) > MOST_ROWS:
            table.add_row(f"and {len(rows) - MOST_ROWS} more")
        return table

    def cells(self, name: str, record: Record) -> list[str]:
        p, length = self.progress(name), self.lengths[name]
        running = record.status == "running"
        known = running and math.isfinite(p.steps_per_s) and p.steps_per_s > 0
        return [
            record.status,
            record.slot or "",
            of_total(p.env_steps, length),
            f"{p.steps_per_s:,.0f}" if math.isfinite(p.steps_per_s) else "-",
            human_score(p.score),
            human_time((length - p.env_steps) / p.steps_per_s) if known else "",
            str(record.attempts),
        ]


def differing_parts(names: Sequence[str]) -> dict[str, str]:
    """Return the names of runs, such as pong,envs=16,seed=0, without the parts that all names have in common."""
    parts = {name: name.split(",") for name in names}
    shared = set.intersection(*map(set, parts.values())) if len(names) > 1 else set()
    return {name: ",".join(p for p in parts[name] if p not in shared) or name for name in names}


class Display:
    """A context manager that displays a live table of runs on a terminal, or prints lines if stderr is not a terminal.

    The display starts no thread, so that runs are started in the main thread: with PR_SET_PDEATHSIG, a run receives a
    signal when the thread that has started it ends.
    """

    def __init__(self, view: View):
        self.view = view
        self.console = Console(stderr=True)
        self._live = Live(console=self.console, auto_refresh=False) if self.console.is_terminal else None
        self._shown = -math.inf

    def __enter__(self) -> "Display":
        if self._live:
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        with contextlib.suppress(OSError):
            self.update(force=True)
        if self._live:
            self._live.stop()

    def update(self, force: bool = False) -> None:
        records = self.view.folder.records
        now = time.monotonic()
        if self._live:
            if force or now - self._shown >= 1.0:
                self._live.update(self.view.table(records), refresh=True)
                self._shown = now
        elif force or now - self._shown >= PLAIN_INTERVAL_S:
            self.say(self.view.summary(records))
            self._shown = now

    def event(self, line: str) -> None:
        """Write a line about the sweep to its events.log, and print it."""
        self.view.folder.event(line)
        self.say(line)

    def say(self, line: str) -> None:
        self.console.print(escaped_lines(line), highlight=False, markup=False, soft_wrap=True)


@dataclass(frozen=True)
class StatusOptions:
    watch: bool = False
    """Refresh the display every two seconds until Ctrl-C."""


def records(folder: SweepFolder, view: View) -> dict[str, Record]:
    """Return the record of each run of a sweep. If the sweep is not running, its interrupted runs count as stopped. The
    status of runs on Slurm, which have no records, is read from their folders."""
    result = folder.load_records()
    alive = folder.holder() is not None
    for name, record in result.items():
        if record.status == "done" or (alive and record.status != "waiting"):
            continue
        if folder.finished(name, view.lengths[name]):
            result[name] = Record("done", record.attempts)
        elif record.status == "running":
            result[name] = Record("stopped", record.attempts)
    return result


def status(argv: list[str]) -> int:
    usage = "accel-rl status FOLDER"
    (name,), o = command(StatusOptions, argv, usage, "Show the state of a sweep.", ("the sweep's folder",))
    folder = opened(Path(name).expanduser())
    view, console = View(folder), Console()
    if not console.is_terminal:
        console.width = PLAIN_WIDTH
    while True:
        holder = folder.holder()
        console.print(view.table(records(folder, view), has_box=console.is_terminal))
        console.print(f"running: process {holder}" if holder else "no sweep is running here", highlight=False)
        if not (o.watch and holder):
            return 0
        time.sleep(2.0)


def main(argv: list[str]) -> int:
    """Return the exit code: 0 displayed, 2 wrong settings, 130 stopped by Ctrl-C."""
    return ended("accel-rl status", status, argv)
