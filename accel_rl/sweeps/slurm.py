"""Submit a sweep to a Slurm cluster with submitit (extra: slurm). Each run is one job, which is requeued if Slurm
interrupts it."""

import os
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from shlex import quote
from typing import Any

from accel_rl.parsing.arguments import stdout
from accel_rl.processes import child
from accel_rl.sweeps.layout import Needs, Size, size_of
from accel_rl.sweeps.sweep_folder import SweepFolder
from accel_rl.sweeps.sweep_plan import PlannedRun
from accel_rl.text.counts import counted
from accel_rl.text.errors import ConfigError

PASSED = ("slurm_partition", "slurm_account", "slurm_qos", "slurm_constraint")
"""Options of a sweep that are passed to Slurm under the same names."""
INSTALL = "pip install 'accel_rl[slurm]'"


class Job:
    """The function of a Slurm job: it starts one run, or resumes it from its checkpoint. Submitit pickles
    the class by value, so that the node does not need to import this module."""

    def __init__(self, run: str, retries: int, command: list[str], variables: dict[str, str]):
        """`command` resumes the run. `variables` are additional environment variables of the command."""
        self.run, self.retries = run, retries
        self._command, self._variables = command, variables

    def __call__(self) -> int:
        """Run the command until it succeeds, at most 1 + `retries` times, and return 0. Raises RuntimeError if all
        attempts fail."""
        code = 0
        for _ in range(1 + self.retries):
            code = subprocess.run(self._command, env={**os.environ, **self._variables}).returncode
            if code in (0, 2):
                break
        if code:
            raise RuntimeError(f"{self.run}: exit code {code}")
        return code

    def checkpoint(self) -> Any:
        """Requeue the job. Submitit calls this method when Slurm is about to end the job (time limit or preemption)."""
        from submitit.helpers import DelayedSubmission

        return DelayedSubmission(self)


def check(cluster: str = "slurm") -> None:
    """Raise ConfigError if this machine cannot submit Slurm jobs."""
    import shutil

    try:
        import submitit  # noqa: F401
    except ImportError as e:
        raise ConfigError(f"--slurm needs the extra slurm: {INSTALL}") from e
    if cluster == "slurm" and shutil.which("sbatch") is None:
        raise ConfigError("--slurm: there is no sbatch here; submit from a login node of the cluster")


def sizes(needs: Mapping[str, Needs], o: Any) -> dict[str, Size]:
    """Return the GPUs and cores that each run's Slurm job requests. `o` are the options of the sweep, whose --gpus
    lists the GPUs of a node."""
    gpus = sys.maxsize if o.gpu_list is None else len(o.gpu_list)
    result = {}
    for name, n in needs.items():
        result[name] = Size(size_of(n, o, gpus, sys.maxsize).gpus, o.cores_per_run or n.cores)
    return result


def _asked(size: Size) -> str:
    return (f"{counted(size.gpus, 'GPU')}, " if size.gpus else "") + counted(size.cores, "core")


def describe(runs: Mapping[str, PlannedRun]) -> list[str]:
    """Describe each Slurm job in a line of text."""
    jobs = [f"  {n:<40}  {r.config.env_steps:>13,} env steps  {_asked(r.size)}" for n, r in runs.items()]
    return [f"{counted(len(runs), 'job')}, each asking Slurm for:", *jobs]


def submit(folder: SweepFolder, sizes: Mapping[str, Size], o: Any, cluster: str = "slurm") -> int:
    """Submit the runs to Slurm. Runs with the same number of GPUs and cores form a job array. `o` are the options of
    the sweep. `cluster` is submitit's name of the kind of cluster. Raises ConfigError if the folder's path has a line
    break, because Slurm could read job options after it."""
    if not str(folder.path.absolute()).isprintable():
        raise ConfigError(f"--slurm: the path {str(folder.path)!r} has a line break or another control character")
    for size in sorted(set(sizes.values()), reverse=True):
        names = [n for n in sizes if sizes[n] == size]
        executor = _executor(folder, size, o, cluster)
        jobs = executor.map_array(lambda job: job(), [_job(folder.run(n).absolute(), o.retries) for n in names])
        for name, job in zip(names, jobs, strict=True):
            stdout(f"  {name}: job {job.job_id}, {_asked(size)}")
    stdout(f"{len(sizes)} jobs; accel-rl status {quote(str(folder.path))}")
    return 0


def _job(run: Path, retries: int) -> Job:
    # --trust is safe, because the sweep has written or checked the run's settings (SweepFolder.config).
    return Job(str(run), retries, child.command("accel_rl", "resume", str(run), "--trust"), child.environment({}))


def _executor(folder: SweepFolder, size: Size, o: Any, cluster: str) -> Any:
    import cloudpickle
    import submitit

    cloudpickle.register_pickle_by_value(sys.modules[__name__])
    executor = submitit.AutoExecutor(folder=str(folder.path / "slurm"), cluster=cluster)
    executor.update_parameters(
        name=re.sub(r"[^\w.=,-]", "_", folder.path.name),
        timeout_min=max(1, round(60 * o.slurm_hours)),
        cpus_per_task=size.cores,
        **({"gpus_per_node": size.gpus} if size.gpus else {}),
        **{name: value for name in PASSED if (value := getattr(o, name))},
        **({"slurm_array_parallelism": o.slurm_jobs} if o.slurm_jobs else {}),
        slurm_additional_parameters={"export": "ALL"},
        # not passed to --export, whose list would be split at a comma in the folder's name
        slurm_setup=[f"export WANDB_RUN_GROUP={quote(folder.path.name)}"],
    )
    return executor
