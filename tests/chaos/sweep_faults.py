"""Faults that end a sweep of two runs, or one of its runs. The resumed sweep must finish both of its runs."""

import json
import signal
from dataclasses import replace

import psutil

from accel_rl.sweeps.grid import Grid, grid
from tests.chaos import invariants
from tests.chaos.modes import CHECKPOINT_STEPS, ENV_STEPS, ROW_STEPS
from tests.chaos.trial import Trial, signal_all
from tests.sweeps.grids import cartpole


def swept() -> Grid:
    """Return a sweep of two runs with ENV_STEPS, CHECKPOINT_STEPS and ROW_STEPS of tests/chaos/modes.py."""
    base = cartpole()
    checkpoint, log = replace(base.checkpoint, interval=CHECKPOINT_STEPS), replace(base.log, interval=ROW_STEPS)
    return grid(replace(base, env_steps=ENV_STEPS, checkpoint=checkpoint, log=log), seeds=(0, 1))


def end_sweep(t: Trial) -> None:
    """Send SIGKILL, SIGTERM or SIGINT to a sweep, or SIGKILL to one of its runs, and resume the sweep."""
    assert t.reference is not None
    folder, undisturbed = t.run, t.reference
    runs = sorted(path.name for path in undisturbed.iterdir() if path.is_dir())
    process = t.train()
    t.run = folder / t.rng.choice(runs)
    number, is_run = t.rng.choice((signal.SIGKILL, signal.SIGTERM, signal.SIGINT)), t.rng.random() < 0.3
    if t.moment(process):
        victim = json.loads((folder / "state.json").read_text())[t.run.name]["pid"] if is_run else process.pid
        if psutil.pid_exists(victim):
            signal_all([psutil.Process(victim)], signal.SIGKILL if is_run else number)
            t.hit("SIGKILL to a run" if is_run else f"{number.name} to the sweep")
    code = t.wait(process, (0, -number) if number == signal.SIGKILL else (0, 128 + number))
    for name in runs:
        t.run = folder / name
        t.check_progress(is_stop=code > 0)
    if code:
        t.wait(t.start("sweep", "--resume", str(folder), "--trust"), (0,))
    for name in runs:
        t.run, t.reference = folder / name, undisturbed / name
        invariants.check_end(t)
