"""Show the state of a sweep from another terminal: accel-rl status FOLDER [--watch]"""

import sys
import time
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console

from accel_rl.config.arguments import parse, positionals
from accel_rl.sweeps.folder import Record, SweepFolder
from accel_rl.sweeps.table import View
from accel_rl.system.command import ended


@dataclass(frozen=True)
class Options:
    watch: bool = False
    """Refresh every two seconds until Ctrl-C."""


def records(folder: SweepFolder, view: View) -> dict[str, Record]:
    """Return the sweep's records, corrected if no sweep is running.

    A run still recorded as running is then stopped. Slurm runs have no records; a finished one is recognised by its
    folder.
    """
    found = folder.load_records()
    alive = folder.holder() is not None
    for name, record in found.items():
        if record.status == "done" or (alive and record.status != "waiting"):
            continue
        if folder.finished(name, view.lengths[name]):
            found[name] = Record("done", record.attempts)
        elif record.status == "running":
            found[name] = Record("stopped", record.attempts)
    return found


def status(argv: list[str]) -> int:
    words, options = positionals(argv, ["the sweep's folder"], "accel-rl status")
    o = parse(Options, options, "accel-rl status FOLDER", "Show the state of a sweep.")
    folder = SweepFolder(Path(words[0]).expanduser())
    view, console = View(folder), Console()
    while True:
        holder = folder.holder()
        console.print(view.table(records(folder, view)))
        console.print(f"running: process {holder}" if holder else "no sweep is running here", highlight=False)
        if not (o.watch and holder):
            return 0
        time.sleep(2.0)


def main(argv: list[str]) -> int:
    """Exit codes: 0 shown, 2 bad input, 130 stopped."""
    return ended("accel-rl status", status, argv)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
