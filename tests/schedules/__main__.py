"""Run accel_rl's code of several processes in many simulated orders of events, and report the orders in which it fails.

    python -m tests.schedules --schedules 10000 --seed 1       # both memory models, three kinds of schedules
    python -m tests.schedules --seed 1 --only sampling/17/weak  # run one schedule again
    python -m tests.schedules --planted                        # after how many schedules planted faults are found

Each schedule simulates one part of accel_rl: sampling, concurrent training, ranks, Gorila's messages, or checkpoints on
a disk. Simulated processes may be killed or hang, and the power may fail.

The program needs the package greenlet.
"""

import importlib
import logging
import sys
import time
from collections import Counter
from dataclasses import dataclass
from typing import Any

from accel_rl.text.counts import Count
from accel_rl.text.errors import ConfigError
from benchmarks.harness.program import machine, one_of, program
from benchmarks.harness.table import table

KINDS = {
    "sampling": "sampling:Sampling",
    "threads": "sampling:ThreadedSampling",
    "periods": "periods:Periods",
    "asynchronous": "learning:AsynchronousRanks",
    "synchronous": "learning:SynchronousRanks",
    "server": "server:ParameterServer",
    "replay": "global_replay:ReplayMessages",
    "disk": "disk:Disk",
}
"""Maps each kind of simulation to its class."""


@dataclass(frozen=True)
class Options:
    schedules: Count = 1_000
    """Number of schedules (simulated orders of events). Kinds of simulation and memory models alternate."""
    seed: int = 0
    """Seed of all schedules. The seed, the kind, the number and the commit determine a schedule."""
    only: str = ""
    """Run only the schedule KIND/NUMBER/MEMORY, such as sampling/17/weak."""
    kinds: tuple[str, ...] = ()
    """Kinds of schedules to run; by default all."""
    planted: bool = False
    """Plant faults into the code, and count the schedules until each fault is found, at most `schedules`."""
    json: str = ""
    """Write all results also to the given JSON file."""

    def check(self) -> None:
        """Raise ConfigError if an option is impossible."""
        if self.schedules < 1:
            raise ConfigError(f"--schedules {self.schedules}: must be at least 1")
        one_of("kinds", self.kinds, KINDS)
        parts = self.only.split("/")
        if self.only and (
            len(parts) != 3 or parts[0] not in KINDS or not parts[1].isdigit() or parts[2] not in ("weak", "strong")
        ):
            raise ConfigError(f"--only {self.only}: must be KIND/NUMBER/MEMORY, such as sampling/17/weak")
        try:
            import greenlet  # noqa: F401
        except ImportError:
            raise ConfigError("tests.schedules needs greenlet: python -m pip install greenlet") from None


def run_one(kind: str, number: int, seed: int, weak: bool) -> int:
    """Run a schedule (simulated order of events), and return its number of scheduling points. Raises the schedule's
    error."""
    from tests.schedules.world import World

    module, _, name = KINDS[kind].partition(":")
    schedule: Any = getattr(importlib.import_module(f"tests.schedules.{module}"), name)
    world = World(f"{kind} {number} {seed}", weak)
    world.run(world.spawn("main", schedule(world, faults=number % 3).main))
    return world.points


def run(o: Options) -> dict[str, Any]:
    """Run all schedules. Returns how many were run of each kind, and the schedules that failed."""
    import torch

    logging.disable(logging.WARNING)
    torch.set_num_threads(1)
    if o.only:
        kind, number, memory = o.only.split("/")
        points = run_one(kind, int(number), o.seed, memory == "weak")
        return {"counts": {f"{kind}, {memory}": 1}, "points": points, "seconds": 0.0, "wrong": []}
    return _find_planted(o) if o.planted else _explore(o)


def _explore(o: Options) -> dict[str, Any]:
    began, shown, points, wrong = time.monotonic(), time.monotonic(), 0, []
    counts: Counter[str] = Counter()
    kinds = o.kinds or tuple(KINDS)
    for i in range(o.schedules):
        kind, memory = kinds[i % len(kinds)], ("strong", "weak")[i // len(kinds) % 2]
        try:
            points += run_one(kind, i, o.seed, memory == "weak")
        except Exception as e:
            wrong.append(f"{kind}/{i}/{memory}: {type(e).__name__}: {e}")
            print(wrong[-1], flush=True)
        counts[f"{kind}, {memory}"] += 1
        if time.monotonic() - shown > 30:
            shown = time.monotonic()
            print(f"{i + 1:,} of {o.schedules:,} schedules, {len(wrong)} wrong", flush=True)
    return {"counts": dict(counts), "points": points, "seconds": time.monotonic() - began, "wrong": wrong}


def _find_planted(o: Options) -> dict[str, Any]:
    from tests.schedules.planted import FAULTS

    rows, wrong, began = [], [], time.monotonic()
    for name, fault in FAULTS.items():
        if fault.kind not in (o.kinds or KINDS):
            continue
        n, outcome = 0, ""
        with fault.planted():
            while not outcome and n < o.schedules:
                try:
                    run_one(fault.kind, n, o.seed, fault.weak)
                except Exception as e:
                    outcome = f"{type(e).__name__}: {e}".split("\n")[0][:80]
                n += 1
        rows.append([name, fault.text, fault.kind, n if outcome else None, outcome])
        if not outcome:
            wrong.append(f"{name}: not found in {n} schedules")
    return {"planted": rows, "seconds": time.monotonic() - began, "wrong": wrong}


def report(o: Options, result: dict[str, Any]) -> list[str]:
    """Return the table of the results."""
    m = machine()
    head = f"{m['cpu']}, {m['date']}, seed {o.seed}, {result['seconds']:.0f} s"
    if "planted" in result:
        return [head, "", *table(["fault", "planted", "schedules of", "found after", "how"], result["planted"])]
    total = sum(result["counts"].values())
    rows = [[name, n] for name, n in result["counts"].items()]
    rows += [["points of choice", result["points"]], ["wrong", len(result["wrong"])]]
    if result["seconds"]:
        rows.append(["schedules an hour", round(total / result["seconds"] * 3600)])
    again = [f"again: python -m tests.schedules --seed {o.seed} --only {w.split(':')[0]}" for w in result["wrong"]]
    return [head, "", *table(["schedules", "number"], rows), *again]


if __name__ == "__main__":
    sys.exit(program("tests.schedules", __doc__, Options, sys.argv[1:], run, report))
