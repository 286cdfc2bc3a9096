"""Run a grid over the slots of a machine: queue it, leave, come back to a folder of finished runs.

    python -m launch.sweep experiments.stooke:a2c_scaling --gpus 0-7 --runs-per-gpu 1
    python -m launch.sweep experiments.stooke:a2c_scaling --only game=pong envs=16,64 --scale 0.01 --dry-run
    python -m launch.sweep --resume FOLDER
    python -m launch.status FOLDER

Exit codes: 0 all runs are done, 1 some failed, 2 bad input (nothing was started), 130 stopped by Ctrl-C.
"""

import contextlib
import sys
import time
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from accel_rl.arguments import parse, positionals, stdout
from accel_rl.counts import Count
from accel_rl.errors import ConfigError, RunError, show_warning
from accel_rl.process import before_torch
from accel_rl.runners.build import plan
from accel_rl.runners.signals import StopRequest
from launch import machine, slots
from launch.feeder import Feeder
from launch.folder import SweepFolder
from launch.grid import Grid, find_grid, overridden
from launch.placing import Placing, make_slots, on_gpus, placing
from launch.settings import scaled
from launch.table import Display, View

LOOK_S = 0.2


@dataclass(frozen=True)
class Options(Placing):
    out: str = ""
    """Folder of the sweep, created. Default: runs/NAME-TIME."""
    only: tuple[str, ...] = ()
    """Only the runs with these values of a level: game=pong,breakout envs=16."""
    seeds: tuple[int, ...] = ()
    """Seeds, in place of the experiment's."""
    override: tuple[str, ...] = ()
    """Settings of every run, as on the command line of accel-rl train: env-steps=20000 sampler.envs=8."""
    scale: float = 1.0
    """Length of each run, and of what goes with it (intervals, replay, epsilon), as a share of the experiment's."""
    retries: Count = 2
    """How often a failed run goes on from its checkpoint before it is given up."""
    resume: str = ""
    """Go on with the sweep in this folder."""
    dry_run: bool = False
    """Print the plan and start nothing."""
    machine: str = ""
    """Place on the machine that this JSON file describes (with --dry-run)."""
    slurm: bool = False
    """Submit each run to Slurm instead, asking for --cores-per-run cores and --gpus-per-run GPUs (none with --gpus
    none); needs the extra slurm."""
    slurm_partition: str = ""
    """Partition to submit to."""
    slurm_hours: float = 24.0
    """Time limit of a job; a job that is cut short goes on from its checkpoint."""


def _pairs(flag: str, words: Sequence[str]) -> dict[str, str]:
    pairs = {}
    for word in words:
        key, equals, value = word.partition("=")
        if not (key and equals and value):
            raise ConfigError(f"{flag} {word}: wanted KEY=VALUE")
        if key in pairs:
            raise ConfigError(f"{flag} {word}: {key} is given twice")
        pairs[key] = value
    return pairs


def make_grid(experiment: str, o: Options) -> Grid:
    """The runs that were asked for, each checked. ConfigError."""
    if not 0 < o.scale <= 1:
        raise ConfigError(f"--scale {o.scale}: must be above 0 and at most 1")
    grid = find_grid(experiment, o.seeds)
    grid = grid.only({key: value.split(",") for key, value in _pairs("--only", o.only).items()})
    if o.scale != 1:
        grid = grid.changed(lambda config: scaled(config, o.scale))
    grid = overridden(grid, _pairs("--override", o.override))
    if not grid.members:
        raise ConfigError("the grid is empty: no run has all of the values that --only names")
    for member in grid.members:
        try:
            with warnings.catch_warnings(action="ignore"):  # who shares cores is for the slot to say
                member.config.check()
                plan(member.config, "cpu")
        except ConfigError as e:
            raise ConfigError(f"run {member.name}: {e}") from e
    return grid


def show(grid: Grid, here: machine.Machine, planned: Sequence[slots.Slot]) -> None:
    for line in slots.describe(here, planned):
        stdout(line)
    stdout(f"{len(grid.members)} runs on {len(planned)} slots:")
    for i, m in enumerate(grid.members):
        stdout(f"  {m.name:<40} {m.config.env_steps:>13,} env steps" + (f"  slot {i}" if i < len(planned) else ""))


def main(argv: list[str]) -> int:
    """Exit codes: 0 done, 1 a run failed, 2 bad input, 130 stopped."""
    before_torch()
    warnings.showwarning = show_warning  # type: ignore[assignment]
    try:
        if argv[:1] == ["status"]:
            from launch.status import status

            return status(argv[1:])
        return sweep(argv)
    except ConfigError as e:
        print(f"launch.sweep: {' '.join(str(e).split())}", file=sys.stderr)
        return 2
    except RunError as e:
        print(f"launch.sweep: {e}", file=sys.stderr)
        return 1


def sweep(argv: list[str]) -> int:
    resuming = any(a == "--resume" or a.startswith("--resume=") for a in argv)
    words, options = positionals(
        argv, [] if resuming else ["the experiment (module:function)"], "python -m launch.sweep"
    )
    o = parse(Options, options, "python -m launch.sweep EXPERIMENT", __doc__ or "")
    if o.machine and not o.dry_run:
        raise ConfigError("--machine plans on paper: it goes with --dry-run")
    if resuming:
        return go_on(o)
    grid = make_grid(words[0], o)
    name = words[0].rpartition(":")[2]
    folder = SweepFolder(
        Path(o.out).expanduser() if o.out else Path("runs") / f"{name}-{time.strftime('%Y%m%d-%H%M%S')}"
    )
    folder.check_new()
    if o.slurm:
        from launch import slurm

        slurm.check()
        grid = grid.changed(lambda config: on_gpus(config, 0 if o.gpus == "none" else o.gpus_per_run))
    else:
        here, planned = make_slots(o, o.machine)
        grid = grid.changed(lambda config: on_gpus(config, len(planned[0].gpus)))
        if o.dry_run:
            show(grid, here, planned)
    if o.dry_run:
        return 0
    with folder.locked() as lock:
        folder.check_unwritten()
        folder.create(grid, {"experiment": words[0], "placing": placing(o), "slurm": o.slurm})
        if o.slurm:
            return slurm.submit(folder, o)
        return run(folder, planned, o.retries, lock)


def go_on(o: Options) -> int:
    """--resume FOLDER: placed as before, but for what is asked for anew."""
    folder = SweepFolder(Path(o.resume).expanduser())
    placed = folder.plan["placing"]
    if folder.plan["slurm"] and not o.slurm:
        raise ConfigError(f"{folder.path}: its runs are Slurm's; submit what is left again with --slurm, jobs ended")
    changed = {k: v for k, v in placing(o).items() if v != getattr(Placing, k)}
    o = replace(o, **{**placed, **changed})
    if o.only or o.seeds or o.override or o.scale != 1:
        raise ConfigError("--resume goes on with the runs as they were begun; leave --only, --seeds and the like")
    if o.slurm:
        from launch import slurm

        slurm.check()
        return slurm.submit(folder, o)
    here, planned = make_slots(o)
    folder.check_free()
    if o.dry_run:
        left = [n for n in folder.names if not folder.finished(n, folder.env_steps(n))]
        for line in [*slots.describe(here, planned), f"{len(left)} runs are left:", *left]:
            stdout(line)
        return 0
    with folder.locked() as lock:
        return run(folder, planned, o.retries, lock)


def run(folder: SweepFolder, planned: Sequence[slots.Slot], retries: int, lock: int) -> int:
    """See all runs of a folder through; returns the exit code."""
    view = View(folder)
    with Display(view) as display, StopRequest() as stop:
        feeder = Feeder(folder, planned, view.lengths, retries, display.say, lock)
        try:
            while not feeder.over and not stop:
                feeder.step()
                display.update()
                time.sleep(LOOK_S)
        finally:  # whatever happens, nothing is left running
            if feeder.running:
                display.say(f"stopping {len(feeder.running)} runs, each with a checkpoint")
                feeder.stop()
            with contextlib.suppress(OSError):
                display.update(force=True)
    return _report(folder, view, stop.exit_code)


def _report(folder: SweepFolder, view: View, stopped: int) -> int:
    records = folder.records
    stdout(view.summary(records))
    for name, record in records.items():
        if record.status == "failed":
            stdout(f"  {name} failed: {folder.log(name)}")
    if all(r.status == "done" for r in records.values()):
        stdout(f"next: accel-rl report {folder.path}")
        return 0
    stdout(f"next: python -m launch.sweep --resume {folder.path}    go on with what is left")
    return stopped or 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
