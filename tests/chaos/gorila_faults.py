"""Faults of runs with a parameter server on Ray. The results of a run with a parameter server depend on the timing of
its processes."""

import importlib.util
import signal
import time

from tests.chaos import invariants
from tests.chaos.process_faults import SIGNALS, kill
from tests.chaos.trial import Trial, signal_all

MEMBERS = ("ray::Member", "ray::ShardActor", "ray::EvaluatorActor", "ray::Board")


def end_gorila(t: Trial) -> None:
    """Signal the driver or one process on Ray, and resume the run if it has ended."""
    process = t.train()
    if t.moment(process):
        title = t.rng.choice((*MEMBERS, "", "", ""))
        processes = t.processes(process, title) if title else []
        if processes and signal_all([t.rng.choice(processes)], signal.SIGKILL):
            t.hit(f"SIGKILL to {title}")
            time.sleep(t.rng.choice((0, 1, 5)))
        if not title or t.rng.random() < 0.4:
            if t.rng.random() < 0.5:
                kill(t, process)
            else:
                t.stop(process, t.rng.choice(SIGNALS))
    t.wait(process)
    t.finish()
    invariants.check_surroundings(t)


def has_ray() -> str:
    """Return the reason why no Ray cluster can be started, or ""."""
    return "" if importlib.util.find_spec("ray") else "ray is not installed"
