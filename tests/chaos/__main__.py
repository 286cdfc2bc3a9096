"""Disturb small training runs by random faults, and check that each run ends, loses nothing and leaves nothing behind.

python -m tests.chaos --minutes 10 --seed 1
python -m tests.chaos --seed 1 --only 17    # trial 17 of seed 1 again

A trial is a run, a fault, and a resume. A trial is "lost" if something that a checkpoint names is lost, if the resumed
run differs from an undisturbed run where equality is promised, or if a file outside the run folder has changed; "hung"
if a command does not end; and "wrong" for an exit code, a traceback or a process that should not be there.
"""

import random
import shutil
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from accel_rl.system.counts import Count
from accel_rl.system.errors import ConfigError
from benchmarks.harness.program import machine, one_of, program
from benchmarks.harness.table import table
from tests.chaos import file_faults, host_faults, process_faults
from tests.chaos.modes import MODES
from tests.chaos.network import can_make_networks
from tests.chaos.trial import Fault, Trial, Violation

OUTCOMES = ("survived", "lost", "hung", "wrong")
EVERY = [name for name, mode in MODES.items() if mode.hosts == 1]
WITH_WORKERS = [name for name in EVERY if MODES[name].workers]
WITH_RANKS = [name for name in EVERY if MODES[name].ranks > 1]
CARTPOLES = [name for name in WITH_WORKERS if "CartPole" in MODES[name].arguments]
HOSTS = [name for name, mode in MODES.items() if mode.hosts > 1]
FAULTS: dict[str, tuple[Fault, list[str]]] = {
    "kill": (process_faults.kill_run, EVERY),
    "kill-start": (process_faults.kill_while_starting, EVERY),
    "kill-worker": (process_faults.kill_worker, WITH_WORKERS),
    "kill-rank": (process_faults.kill_rank, WITH_RANKS),
    "kill-call": (process_faults.kill_at_call, EVERY),
    "fail-call": (process_faults.fail_call, EVERY),
    "freeze": (process_faults.freeze_run, EVERY),
    "freeze-worker": (process_faults.freeze_worker, WITH_WORKERS),
    "stop": (process_faults.stop_run, EVERY),
    "stop-rank": (process_faults.stop_rank, WITH_RANKS),
    "host-cut": (host_faults.cut_host, HOSTS),
    "host-kill": (host_faults.kill_host, HOSTS),
    "host-slow": (host_faults.slow_network, HOSTS),
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
"""Each fault's function, and the modes of training that have it."""


@dataclass(frozen=True)
class Options:
    """`Options` has the options of the program."""

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
    absent = {"power": file_faults.can_mount(), "full-disk": file_faults.can_mount()}
    absent |= dict.fromkeys(("kill-call", "fail-call"), process_faults.has_strace())
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
            trials.append(trial(k, fault, mode, rng, Path(root), o))
    wrong = [f"{t['trial']} {t['fault']} {t['mode']}: {t['violation']}" for t in trials if t["violation"]]
    return {"trials": trials, "left_out": left_out, "wrong": wrong}


def trial(k: int, fault: str, mode: str, rng: random.Random, root: Path, o: Options) -> dict[str, Any]:
    """Run a single trial, and return its record."""
    began, folder = time.monotonic(), root / f"trial-{k}"
    t = Trial(MODES[mode], folder, rng, reference(mode, root))
    outcome, violation = "survived", ""
    try:
        FAULTS[fault][0](t)
    except Violation as e:
        outcome, violation = e.kind, str(e)
    except OSError as e:  # A check could not read a file of the run.
        outcome, violation = "wrong", f"the check failed: {e}"
    t.clean()
    seconds = time.monotonic() - began
    print(f"{k:4} {fault:13} {mode:10} {seconds:5.1f} s  {outcome}: {violation or ', '.join(t.told)}", flush=True)
    if violation and o.keep:
        shutil.move(folder, Path(o.keep) / f"seed-{o.seed}-trial-{k}")
    shutil.rmtree(folder, ignore_errors=True)
    return {
        "trial": k, "fault": fault, "mode": mode, "seconds": round(seconds, 1), "outcome": outcome,
        "violation": violation, "details": t.told,
    }  # fmt: skip


def reference(mode: str, root: Path) -> Path:
    """Return the folder of an undisturbed run, which is trained when it is first needed."""
    folder = root / f"reference-{mode}"
    if not folder.exists():
        t = Trial(MODES[mode], folder, random.Random(0))
        if MODES[mode].hosts > 1:
            host_faults.undisturbed(t)
        else:
            t.wait(t.train(), (0,))
            t.check()
    return folder / "run"


def report(o: Options, result: dict[str, Any]) -> list[str]:
    """Return a table with the number of trials by fault and outcome."""
    trials = result["trials"]
    count = Counter((t["fault"], t["outcome"]) for t in trials)
    names = [name for name in FAULTS if any(t["fault"] == name for t in trials)]
    lines = [[name, *(count[name, outcome] for outcome in OUTCOMES)] for name in names]
    lines.append(["all", *(sum(count[name, outcome] for name in names) for outcome in OUTCOMES)])
    m = machine()
    head = f"{m['cpu']}, {len(m['cores'])} cores, {m['date']}; seed {o.seed}, {len(trials)} trials"
    again = [f"again: python -m tests.chaos --seed {o.seed} --only {line.split()[0]}" for line in result["wrong"]]
    return ["", head, "", *table(["fault", *OUTCOMES], lines), *again]


if __name__ == "__main__":
    sys.exit(program("tests.chaos", __doc__, Options, sys.argv[1:], run_trials, report))
