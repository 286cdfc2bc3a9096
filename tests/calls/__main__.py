"""Let each system call of a small run fail, and compare the continued or resumed run with an undisturbed run.

    python -m tests.calls                                       # every call of each mode; hours
    python -m tests.calls --calls fsync rename --modes ppo      # some calls
    python -m tests.calls --every 10 --json out.json            # every tenth call
    python -m tests.calls --only "ppo/rename/EIO done/once/3"   # one trial again

A trial is a run in which the n-th system call of a kind fails, or the n-th and all later calls of this kind. Calls that
access a file are counted only if the file is in the run's folder. Calls that create threads or processes or map memory
are counted only in the main process. The program needs a C compiler, and a C library with LD_PRELOAD.
"""

import itertools
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from accel_rl.text.errors import ConfigError
from benchmarks.harness.program import machine, one_of, program
from benchmarks.harness.table import table
from tests.calls.planted import FAULTS as PLANTED
from tests.calls.trial import FAULTS, MODES, Fault, Shim, Trials

GOOD = ("went on", "resumed", "untouched")
OUTCOMES = (*GOOD, "lost", "traceback", "hung", "wrong")


@dataclass(frozen=True)
class Options:
    calls: tuple[str, ...] = ()
    """Kinds of system calls to test; by default all."""
    errors: tuple[str, ...] = ()
    """Faults such as EIO, "EIO done", short or kill; by default all that are possible with the calls."""
    modes: tuple[str, ...] = ()
    """Modes of training to test; by default all."""
    every: int = 1
    """Test only the calls 1, 1 + EVERY, 1 + 2 EVERY, ... of each kind."""
    only: str = ""
    """Run one trial, MODE/CALL/FAULT/once|ever/N."""
    planted: str = ""
    """Name of a fault to plant into the code of the runs, which the trials must then find."""
    json: str = ""
    """Write all results also to the given JSON file."""

    def check(self) -> None:
        """Raise ConfigError if an option is impossible."""
        one_of("calls", self.calls, FAULTS)
        one_of("modes", self.modes, MODES)
        one_of("errors", self.errors, sorted({kind for kinds in FAULTS.values() for kind in kinds}))
        if self.every < 1:
            raise ConfigError(f"--every {self.every}: must be at least 1")
        one_of("planted", filter(None, [self.planted]), PLANTED)
        if self.only:
            Fault.parse(self.only)


def run(o: Options) -> dict[str, Any]:
    """Run all trials, and return the number of each outcome and the trials that went wrong."""
    began, counts, wrong, calls = time.monotonic(), {}, [], {}
    only = Fault.parse(o.only) if o.only else None
    kinds = {call: tuple(k for k in FAULTS[call] if not o.errors or k in o.errors) for call in o.calls or FAULTS}
    with tempfile.TemporaryDirectory() as name:
        shim = Shim(Path(name))
        shim.preload()
        for mode in (only.mode,) if only else o.modes or MODES:
            trials = Trials(shim, mode, Path(name) / mode, o.planted)
            calls[mode] = trials.counts
            faults = [only] if only else [f for call in kinds for f in trials.faults(call, kinds[call], o.every)]
            for kind, same in itertools.groupby(faults, lambda fault: str(fault).rpartition("/")[0]):
                counts[kind] = Counter()
                for fault in same:
                    outcome, text = trials.outcome(fault)
                    counts[kind][outcome] += 1
                    if outcome not in GOOD:
                        wrong.append(f"{fault}: {outcome}: {text}")
                        print(wrong[-1], flush=True)
                print(f"{kind}: {', '.join(f'{n} {outcome}' for outcome, n in counts[kind].items())}", flush=True)
    return {"outcomes": counts, "calls": calls, "seconds": time.monotonic() - began, "wrong": wrong}


def report(o: Options, result: dict[str, Any]) -> list[str]:
    """Return the table of the outcomes."""
    m, counts = machine(), result["outcomes"]
    n = sum(map(Counter.total, counts.values()))
    head = f"{m['cpu']}, {m['date']}: {n} trials in {result['seconds']:.0f} s"
    rows = [[*name.split("/"), *(row[outcome] for outcome in OUTCOMES)] for name, row in counts.items()]
    rows.append(["all", "", "", "", *(sum(row[outcome] for row in counts.values()) for outcome in OUTCOMES)])
    again = ['again: python -m tests.calls --only "' + line.split(":")[0] + '"' for line in result["wrong"][:1]]
    return [head, "", *table(["mode", "call", "fault", "times", *OUTCOMES], rows), *again]


if __name__ == "__main__":
    sys.exit(program("tests.calls", __doc__, Options, sys.argv[1:], run, report))
