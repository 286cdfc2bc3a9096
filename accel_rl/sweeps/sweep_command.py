"""The command `accel-rl sweep` runs a grid of training runs on the slots of a machine, and queues the runs that wait
for a slot.

    accel-rl sweep stooke:a2c_scaling --gpus 0-7 --runs-per-gpu 1
    accel-rl sweep stooke:table_2 --dry-run --machine FILE
    accel-rl sweep stooke:a2c_scaling --only game=pong envs=16,64 --scale 0.01 --dry-run
    accel-rl sweep stooke:a2c_scaling --minutes 12 --carry FOLDER
    accel-rl sweep --resume FOLDER
    accel-rl status FOLDER

The exit code is 0 if all runs are done or the time of --minutes is over, 1 if a run failed, 2 for wrong settings (no
run was started), and 130 after Ctrl-C.
"""

import os
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from accel_rl.metrics.wandb import check_wandb
from accel_rl.parsing.arguments import parse, positionals, stdout, value_of
from accel_rl.settings.config_file import read_file
from accel_rl.settings.registry import papers
from accel_rl.settings.resolved import fill_in
from accel_rl.settings.trust import code_names
from accel_rl.sweeps import carried_code, expected_hours, pause, sweep_loop
from accel_rl.sweeps.carried import Carried
from accel_rl.sweeps.deadline import Deadline, check_minutes
from accel_rl.sweeps.grid import Grid, find_grid, pairs, prepared
from accel_rl.sweeps.layout import Layout, RunOptions, lay_out, needs_of_begun, placing, with_placing
from accel_rl.sweeps.packing import MB, Packing, check_carried
from accel_rl.sweeps.sweep_folder import SweepFolder, prune
from accel_rl.sweeps.sweep_plan import PlannedRun, begun, describe, planned, shortages
from accel_rl.text.counts import Count
from accel_rl.text.errors import ConfigError, ended


@dataclass(frozen=True)
class SweepOptions(RunOptions):
    only: tuple[str, ...] = ()
    """Run only those runs of the grid that have the given values, such as game=pong,breakout envs=16. The names atari5,
    atari10, atari26, atari49 and atari57 mean those games of the list that are in the grid."""
    seeds: tuple[int, ...] = ()
    """Seeds of the runs, which replace the experiment's seeds. A function that returns a grid receives the seeds as its
    parameter `seeds`."""
    resume: str = ""
    """Resume the sweep in this folder. If an experiment but no folder is given, --resume continues the sweep in --out
    (by default runs/MODULE-NAME), or starts it if this folder does not exist. If an experiment is given, runs may
    import the user's code that it names; otherwise --trust is needed for this."""
    pause: str = ""
    """Stop all processes of the sweep in this folder until --unpause."""
    unpause: str = ""
    """Continue the sweep in this folder after --pause."""
    prune: str = ""
    """Remove the checkpoints of the finished runs of the sweep in this folder, except the newest of each run. With
    --dry-run, only list the checkpoints."""
    dry_run: bool = False
    """Print the plan of the sweep without starting runs."""
    machine: str = ""
    """JSON file that describes another machine, for the plan of --dry-run."""
    rate: tuple[str, ...] = ()
    """Env steps/s of algorithms, such as ppo=2000 dqn=900. --dry-run computes the expected hours from them (by default
    from the medians of the runs in --rates), and --minutes uses them until rates have been measured."""
    rates: str = "runs"
    """Folder of earlier runs, from whose env steps/s --dry-run computes the expected hours."""
    minutes: float | None = None
    """Time limit of the sweep. Only runs that can finish in time are started, in the order of the grid. A run that
    turns out to be too slow is stopped, and another run uses its slot. Near the time limit, all runs that still train
    save a checkpoint and stop."""
    carry: str = ""
    """Folder for finished runs and checkpoints of unfinished runs, in a few files of at most 15 MB each. The sweep
    continues with the runs in this folder, on this or another machine, and adds each run as soon as it is finished."""
    carry_mb: Count = 60
    """Maximum size of all files in --carry together, in MB."""
    when_done: str = ""
    """Shell command to run when the sweep ends, for example one that sends a message. The environment variables
    ACCEL_RL_SWEEP and ACCEL_RL_EXIT_CODE contain the sweep's folder and exit code."""
    slurm: bool = False
    """Submit each run to Slurm, with the GPUs and cores that the run requests, or with --gpus-per-run and
    --cores-per-run. With --gpus 0-7 a node has 8 GPUs, and with --gpus none the jobs request no GPUs. Requires the
    extra slurm."""
    slurm_partition: str = ""
    """Slurm partition to which the jobs are submitted."""
    slurm_hours: float = 24.0
    """Time limit of a Slurm job, in hours. An interrupted Slurm job is requeued and continues from its checkpoint."""
    slurm_account: str = ""
    """Slurm account to which the jobs are charged."""
    slurm_qos: str = ""
    """Slurm quality of service of the jobs."""
    slurm_constraint: str = ""
    """Slurm constraint on the nodes of the jobs, such as a100."""
    slurm_jobs: Count = 0
    """Maximum number of jobs of an array that Slurm runs at the same time, or 0 for no maximum."""


def make_grid(experiment: str, o: SweepOptions) -> Grid:
    """Build and check the runs of an experiment with the given options."""
    grid = find_grid(experiment, o.seeds)
    grid = grid.only({key: value.split(",") for key, value in pairs("--only", o.only).items()})
    if not grid.members:
        raise ConfigError("the grid is empty: no run has all of the values that --only names")
    return prepared(grid, o)


def show(lines: Sequence[str]) -> int:
    for line in lines:
        stdout(line)
    return 0


def main(argv: list[str]) -> int:
    """Return the exit code: 0 done, 1 a run failed, 2 wrong settings, 130 stopped by Ctrl-C."""
    return ended("accel-rl sweep", sweep, argv)


def sweep(argv: list[str], began: float | None = None) -> int:
    """Run the command. `began` is the time at which the command began (Unix time), by default the current time."""
    began = time.time() if began is None else began
    argv = with_default_folder(argv)
    existing = any(a.partition("=")[0] in ("--resume", "--pause", "--unpause", "--prune") for a in argv)
    named = argv[:1] and not argv[0].startswith("-") and any(a.partition("=")[0] == "--resume" for a in argv)
    names = [f"the experiment (module:function; the papers are {', '.join(papers())})"] if named or not existing else []
    words, options = positionals(argv, names, "accel-rl sweep")
    o = parse(SweepOptions, options, "accel-rl sweep EXPERIMENT", __doc__ or "")
    if o.pause:
        return show([pause.pause(Path(o.pause).expanduser())])
    if o.unpause:
        return show([pause.unpause(Path(o.unpause).expanduser())])
    if o.prune:
        return show(prune(SweepFolder(Path(o.prune).expanduser()), o.dry_run))
    check_minutes(o.minutes)
    if o.slurm and (o.carry or o.minutes):
        raise ConfigError("--minutes and --carry are for runs on this machine: leave out --slurm")
    if o.machine and not o.dry_run:
        raise ConfigError("--machine describes another machine: use it with --dry-run")
    if o.resume:
        return resume(o, began, words)
    if not words:
        raise ConfigError("--resume, --pause, --unpause and --prune need a sweep's folder, and got ''")
    carried = read_carried(o)
    grid = make_grid(words[0], o)
    folder = SweepFolder.new(o.out, words[0])
    needs = {m.name: m.needs for m in grid.members}
    labels = {m.name: m.labels for m in grid.members}
    if o.slurm:
        from accel_rl.sweeps import slurm

        runs = planned(grid, slurm.sizes(needs, o))
        if o.dry_run:
            return show([*slurm.describe(runs), *hours(runs, o, o.slurm_jobs or 1)])
        slurm.check()
    else:
        layout = lay_out(o, needs, o.machine)
        runs = planned(grid, layout.sizes)
        if carried is not None:
            check_carried(carried, {name: fill_in(run.config).to_dict() for name, run in runs.items()})
        if o.dry_run:
            lines = [*describe(layout, runs), *hours(runs, o, layout.most_runs)]
            with tempfile.TemporaryDirectory() as scratch:
                trial = SweepFolder(Path(scratch))
                trial.create(runs, labels, {})
                return show([*lines, *choice(trial, layout, o, began, carried)])
    for mode in {run.config.wandb for run in runs.values()}:
        check_wandb(mode)
    if carried is not None:
        carried.open()
    with folder.locked() as lock:
        folder.create(runs, labels, {"experiment": words[0], "placing": placing(o), "slurm": o.slurm})
        if o.slurm:
            return slurm.submit(folder, {n: r.size for n, r in runs.items()}, o)
        return run(folder, layout, shortages(runs.values()), o, lock, began, carried)


def with_default_folder(argv: list[str]) -> list[str]:
    """Replace `EXPERIMENT --resume` without a folder by options that resume or start the sweep in its default
    folder."""
    if "--resume" not in argv:
        return argv
    i = argv.index("--resume")
    if i + 1 < len(argv) and not argv[i + 1].startswith("-"):
        return argv
    words, _ = positionals(argv[:i] + argv[i + 1 :], ["the experiment (module:function)"], "accel-rl sweep")
    module, _, name = words[0].partition(":")
    module = module.removesuffix(".py").replace("/", ".").rpartition(".")[2]
    out = value_of(argv, "--out") or str(Path("runs") / f"{module}-{name}")
    rest = argv[:i] + argv[i + 1 :]
    if not (Path(out).expanduser() / "sweep.json").exists():
        return [*rest, *([] if value_of(argv, "--out") else ["--out", out])]
    if "--out" in rest:
        del rest[rest.index("--out") : rest.index("--out") + 2]
    return [*(a for a in rest if not a.startswith("--out=")), "--resume", out]


def resume(o: SweepOptions, began: float, experiments: Sequence[str] = ()) -> int:
    """Resume the sweep in the folder --resume. The command began at `began` (Unix time). The sweep's stored options
    apply unless new options are given. A user's code that the runs of `experiments` name is trusted."""
    members = [m for name in experiments for m in find_grid(name).members]
    trust = o.trust or {name for m in members for name in code_names(m.config.to_dict())}
    folder = SweepFolder(Path(o.resume).expanduser())
    pause.release(folder.path)
    if "search" in folder.plan:
        raise ConfigError(f"{folder.path} is a search: accel-rl search --resume {folder.path}")
    if "script" in folder.plan:
        raise ConfigError(f"{folder.path} has scripts: accel-rl launch --resume {folder.path}")
    if folder.plan["slurm"] and not o.slurm:
        raise ConfigError(f"{folder.path} was submitted to Slurm; once its jobs have ended, resume it with --slurm")
    o = with_placing(o, folder.plan["placing"])
    if o.only or o.seeds or o.override or o.scale != 1:
        raise ConfigError("--resume continues runs as they were begun; leave out --only, --seeds, --override, --scale")
    left, sizes = folder.left(trust), folder.plan.get("sizes")
    if sizes is None:
        raise ConfigError(f"{folder.path} was begun by an earlier version, which did not store what its runs ask for")
    needs = {name: needs_of_begun(config, sizes[name]) for name, config in left.items()}
    if o.slurm:
        from accel_rl.sweeps import slurm

        sizes = slurm.sizes(needs, o)
        runs = begun(left, needs, sizes)
        if o.dry_run:
            return show(slurm.describe(runs))
        slurm.check()
        return slurm.submit(folder, sizes, o)
    layout = lay_out(o, needs)
    runs = begun(left, needs, layout.sizes)
    folder.check_free()
    if (carried := read_carried(o)) is not None:
        check_carried(carried, {name: read_file(folder.run(name)) for name in folder.names})
    if o.dry_run:
        return show([*describe(layout, runs), *choice(folder, layout, o, began, None)])
    if carried is not None:
        carried.open()
    with folder.locked() as lock:
        return run(folder, layout, [], o, lock, began, carried)


def read_carried(o: SweepOptions) -> Carried | None:
    """Read the folder --carry, and copy its compiled code to this machine's cache folder."""
    if o.carry_mb < 1:
        raise ConfigError(f"--carry-mb {o.carry_mb}: must be at least 1")
    if not o.carry:
        return None
    carried = Carried(Path(o.carry).expanduser(), o.carry_mb * MB)
    if not o.dry_run and (line := carried_code.carry_in(carried)):
        stdout(line)
    return carried


def choice(folder: SweepFolder, layout: Layout, o: SweepOptions, began: float, carried: Carried | None) -> list[str]:
    """Return lines of text about which runs --minutes would start, given the rates that are known now."""
    if o.minutes is None:
        return []
    if carried is not None:
        Packing(folder, carried).unpack()
    waiting = [name for name in layout.sizes if not folder.finished(name, folder.env_steps(name))]
    return Deadline(folder, layout, o.minutes, began, expected_hours.given_rates(o.rate)).plan(waiting)


def hours(runs: Mapping[str, PlannedRun], o: SweepOptions, at_once: int) -> list[str]:
    """Return lines of text with the expected hours of the runs, computed from --rate and from the runs in --rates."""
    rates = {**expected_hours.measured_rates(Path(o.rates).expanduser()), **expected_hours.given_rates(o.rate)}
    return expected_hours.describe([run.config for run in runs.values()], rates, at_once)


def done(folder: SweepFolder, exit_code: int, command: str) -> int:
    """Run the command of --when-done at the end of a sweep, and return the sweep's exit code."""
    if command:
        variables = {"ACCEL_RL_SWEEP": str(folder.path), "ACCEL_RL_EXIT_CODE": str(exit_code)}
        code = subprocess.run(command, shell=True, env={**os.environ, **variables}).returncode
        if code:
            stdout(f"--when-done {command}: exit code {code}")
    return exit_code


def run(
    folder: SweepFolder,
    layout: Layout,
    notes: Sequence[str],
    o: SweepOptions,
    lock: int,
    began: float,
    carried: Carried | None,
) -> int:
    """Run the unfinished runs of a sweep's folder to their end, or until --minutes after `began` (Unix time), and
    return the sweep's exit code."""
    packing = deadline = None
    if carried is not None:
        packing = Packing(folder, carried)
        packing.unpack()
    if o.minutes is not None:
        deadline = Deadline(folder, layout, o.minutes, began, expected_hours.given_rates(o.rate))
    return done(folder, sweep_loop.run(folder, layout, o, lock, notes, deadline, packing), o.when_done)
