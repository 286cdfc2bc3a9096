"""Disturb small training runs by random faults, and check that the runs lose nothing and leave no process behind.

    python -m tests.chaos --minutes 10 --seed 1
    python -m tests.chaos --seed 1 --only 17    # trial 17 of seed 1 again
    python -m tests.chaos --planted             # after how many trials faults that were planted into accel_rl are found

In a trial, a fault disturbs a run, which is then resumed. Outcomes of a trial:

- "lost": a checkpoint is missing, the resumed run differs from an undisturbed run although it must be equal, or a file
outside the run folder has changed; - "hung": a command does not end; - "wrong": an unexpected exit code, a traceback,
or a process that remains; - "nothing done": the fault came after the end of the run or before its first checkpoint; -
"survived": otherwise.
"""

import random
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from accel_rl.text.counts import Count
from accel_rl.text.errors import ConfigError
from benchmarks.harness.program import machine, one_of, program
from benchmarks.harness.table import table
from tests.chaos import (
    file_faults,
    gorila_faults,
    host_faults,
    machine_faults,
    planted_faults,
    process_faults,
    sweep_faults,
)
from tests.chaos.invariants import Violation
from tests.chaos.modes import MODES
from tests.chaos.network import can_make_networks
from tests.chaos.trial import Fault, Trial

OUTCOMES = ("survived", "nothing done", "lost", "hung", "wrong")
EVERY = [name for name, mode in MODES.items() if mode.hosts == 1 and not (mode.sweep or mode.gorila)]
SWEEPS = [name for name, mode in MODES.items() if mode.sweep]
WITH_WORKERS = [name for name in EVERY if MODES[name].workers]
WITH_RANKS = [name for name in EVERY if MODES[name].ranks > 1]
CARTPOLES = [name for name in WITH_WORKERS if "CartPole" in MODES[name].arguments]
HOSTS = [name for name, mode in MODES.items() if mode.hosts > 1]
FAULTS: dict[str, tuple[Fault, list[str]]] = {
    "kill": (process_faults.kill_run, EVERY),
    "kill-start": (process_faults.kill_while_starting, EVERY),
    "kill-worker": (process_faults.kill_worker, WITH_WORKERS),
    "kill-rank": (process_faults.kill_rank, WITH_RANKS),
    "no-locks": (process_faults.without_locks, EVERY),
    "freeze": (process_faults.freeze_run, EVERY),
    "freeze-worker": (process_faults.freeze_worker, WITH_WORKERS),
    "stop": (process_faults.stop_run, EVERY),
    "stop-worker": (process_faults.stop_without_worker, WITH_WORKERS),
    "stop-rank": (process_faults.stop_rank, WITH_RANKS),
    "clock": (machine_faults.clock_jumps, EVERY),
    "memory": (machine_faults.out_of_memory, EVERY),
    "gorila": (gorila_faults.end_gorila, ["gorila"]),
    "sweep": (sweep_faults.end_sweep, SWEEPS),
    "host-cut": (host_faults.cut_host, HOSTS),
    "host-kill": (host_faults.kill_host, HOSTS),
    "host-slow": (host_faults.slow_network, HOSTS),
    "clients": (process_faults.hostile_clients, ["ranks"]),
    "limits": (process_faults.limits, EVERY),
    "environment": (process_faults.environments, CARTPOLES),
    "damage": (file_faults.damage, EVERY),
    "descriptors": (file_faults.descriptors, EVERY),
    "full-disk": (file_faults.full_disk, EVERY),
    "go-back": (file_faults.go_back, EVERY),
    "moved": (file_faults.moved, EVERY),
    "power": (file_faults.power_failure, EVERY),
    "two": (file_faults.two_processes, EVERY),
}
"""Maps each fault to the function that causes it, and to the modes of training in which it is tested."""


@dataclass(frozen=True)
class Options:
    minutes: float = 10.0
    """Number of minutes after which no trial begins."""
    seed: int = 0
    """Seed of all random choices. Trial k depends on the seed and k alone."""
    only: int | None = None
    """Number of the single trial to run."""
    faults: tuple[str, ...] = ()
    """Names of the faults to run, by default all."""
    modes: tuple[str, ...] = ()
    """Names of the training modes to run, by default all."""
    trials: Count | None = None
    """Number of trials after which the program ends."""
    keep: str = ""
    """Folder to which the files of failed trials are moved."""
    planted: bool = False
    """Plant one fault after another into accel_rl, and report after how many trials each planted fault is found."""
    json: str = ""
    """Write all results also to the given JSON file."""

    def check(self) -> None:
        """Raise ConfigError if an option is impossible."""
        one_of("faults", self.faults, FAULTS)
        one_of("modes", self.modes, MODES)
        if not 0 < self.minutes < float("inf"):
            raise ConfigError(f"--minutes {self.minutes:g}: must be above 0")
        if self.keep:
            Path(self.keep).mkdir(parents=True, exist_ok=True)


def run_trials(o: Options) -> dict[str, Any]:
    """Run the trials, print a line for each, and return all results."""
    # Under nohup, the processes of the trials would ignore SIGHUP.
    if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
        signal.signal(signal.SIGHUP, lambda *_: None)
    if o.planted:
        return run_planted(o)
    absent = {"power": file_faults.can_mount(), "full-disk": file_faults.can_mount()}
    absent |= {"no-locks": process_faults.has_strace(), "clock": machine_faults.can_change_clock()}
    absent |= {"memory": machine_faults.can_limit_memory(), "gorila": gorila_faults.has_ray()}
    absent |= dict.fromkeys(("host-cut", "host-kill", "host-slow"), can_make_networks())
    left_out = {name: reason for name, reason in absent.items() if reason}
    for name, reason in left_out.items():
        print(f"{name} is left out: {reason}")
    deadline, trials = time.monotonic() + o.minutes * 60, []
    with tempfile.TemporaryDirectory(prefix="chaos-") as root:
        for k in range(10**9) if o.only is None else [o.only]:
            if time.monotonic() > deadline or (o.trials is not None and len(trials) >= o.trials):
                break
            rng = random.Random(f"{o.seed} {k}")
            fault = rng.choice(list(FAULTS))
            mode = rng.choice(FAULTS[fault][1])
            if fault in left_out or fault not in (o.faults or FAULTS) or mode not in (o.modes or MODES):
                continue
            trials.append(trial(k, fault, mode, rng, Path(root), o.keep and f"{o.keep}/seed-{o.seed}-trial-{k}"))
    wrong = [f"{t['trial']} {t['fault']} {t['mode']}: {t['violation']}" for t in trials if t["violation"]]
    return {"trials": trials, "left_out": left_out, "wrong": wrong}


def trial(
    k: int, fault: str, mode: str, rng: random.Random, root: Path, keep: str = "", planted: str = ""
) -> dict[str, Any]:
    """Run a single trial, and return its record. The files of a failed trial are moved to `keep`. `planted` is the name
    of a fault that is planted into the trial's processes."""
    began, folder = time.monotonic(), root / f"trial-{k}"
    t = Trial(MODES[mode], folder, rng, reference(mode, root))
    t.environment = planted_faults.variables(planted) if planted else {}
    violation = outcome = ""
    try:
        FAULTS[fault][0](t)
    except Violation as e:
        outcome, violation = e.kind, str(e)
    except (OSError, psutil.Error) as e:  # A check could not read a file or a process.
        outcome, violation = "wrong", f"the check failed: {e}"
    t.leftovers.kill()
    outcome = outcome or ("survived" if t.acted else "nothing done")
    seconds = time.monotonic() - began
    print(
        f"{k:4} {fault:13} {mode:10} {seconds:5.1f} s  {outcome}: {'; '.join(filter(None, [violation, *t.told]))}",
        flush=True,
    )
    if violation and keep:
        shutil.move(folder, keep)
    shutil.rmtree(folder, ignore_errors=True)
    return {
        "trial": k, "fault": fault, "mode": mode, "seconds": round(seconds, 1), "outcome": outcome,
        "lost_steps": t.lost_steps, "violation": violation, "details": t.told,
    }  # fmt: skip


def run_planted(o: Options) -> dict[str, Any]:
    """Run trials with each planted fault until a trial finds the fault."""
    with tempfile.TemporaryDirectory(prefix="chaos-") as root:
        searches = {name: find(name, o.seed, Path(root)) for name in planted_faults.PLANTED}
    return {"planted": searches, "wrong": [name for name, trials in searches.items() if not trials[-1]["violation"]]}


def find(planted: str, seed: int, root: Path) -> list[dict[str, Any]]:
    """Run at most MOST trials with a planted fault, until a trial reports a violation.

    Return the records of the trials.
    """
    fault, trials = planted_faults.PLANTED[planted], []
    print(f"{planted}: {fault.patch.__doc__}")
    for k in range(planted_faults.MOST):
        rng = random.Random(f"{seed} {planted} {k}")
        trials.append(trial(k, rng.choice(fault.faults), fault.mode, rng, root, planted=planted))
        if trials[-1]["violation"]:
            break
    return trials


def reference(mode: str, root: Path) -> Path:
    """Return the folder of an undisturbed run, which is trained when it is first needed."""
    folder = root / f"reference-{mode}"
    if not folder.exists():
        t = Trial(MODES[mode], folder, random.Random(0))
        if MODES[mode].hosts > 1:
            host_faults.undisturbed(t)
        elif MODES[mode].sweep:
            t.wait(t.train(), (0,))
        else:
            t.finish_undisturbed(t.train())
    return folder / "run"


def report(o: Options, result: dict[str, Any]) -> list[str]:
    """Return a table of the numbers of trials by fault and outcome, or a table of the planted faults."""
    if o.planted:
        lines = [
            [name, ts[-1]["mode"], len(ts), ts[-1]["fault"], f"{ts[-1]['outcome']}: {ts[-1]['violation']}"[:120]]
            for name, ts in result["planted"].items()
        ]
        return ["", *table(["planted", "mode", "trials", "found by", "as"], lines)]
    trials = result["trials"]
    names = [name for name in FAULTS if any(t["fault"] == name for t in trials)]
    lines = []
    for name in [*names, "all"]:
        chosen = [t for t in trials if name in (t["fault"], "all")]
        count = Counter(t["outcome"] for t in chosen)
        lines.append(
            [name, *(count[outcome] for outcome in OUTCOMES), max((t["lost_steps"] for t in chosen), default=0)]
        )
    m = machine()
    head = f"{m['cpu']}, {len(m['cores'])} cores, {m['date']}; seed {o.seed}, {len(trials)} trials"
    again = [f"again: python -m tests.chaos --seed {o.seed} --only {line.split()[0]}" for line in result["wrong"]]
    return ["", head, "", *table(["fault", *OUTCOMES, "most env steps lost"], lines), *again]


if __name__ == "__main__":
    sys.exit(program("tests.chaos", __doc__, Options, sys.argv[1:], run_trials, report))
