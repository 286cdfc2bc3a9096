"""The same grid on a Slurm cluster, by submitit: a job a run, requeued where it is cut short (extra: slurm)."""

import subprocess
import sys
from typing import Any

from accel_rl.arguments import stdout
from accel_rl.errors import ConfigError
from launch.folder import SweepFolder

INSTALL = "pip install 'accel_rl[slurm]'"


class Job:
    """One run, from wherever its checkpoint left it. Pickled by submitit and called on the node."""

    def __init__(self, run: str, retries: int):
        self.run, self.retries = run, retries

    def __call__(self) -> int:
        """Its exit code, 0. RuntimeError where all attempts failed."""
        code = 0
        for _ in range(1 + self.retries):
            code = subprocess.run([sys.executable, "-m", "accel_rl", "resume", self.run]).returncode
            if code in (0, 2):
                break
        if code:
            raise RuntimeError(f"{self.run}: exit code {code}")
        return code

    def checkpoint(self) -> Any:
        """Slurm is about to end the job (its time is up, it is preempted): it begins again, from the checkpoint."""
        from submitit.helpers import DelayedSubmission

        return DelayedSubmission(self)


def check(cluster: str = "slurm") -> None:
    """ConfigError where it cannot be submitted."""
    import shutil

    try:
        import submitit  # noqa: F401
    except ImportError as e:
        raise ConfigError(f"--slurm needs the extra slurm: {INSTALL}") from e
    if cluster == "slurm" and shutil.which("sbatch") is None:
        raise ConfigError("--slurm: there is no sbatch here; submit from a login node of the cluster")


def submit(folder: SweepFolder, o: Any, cluster: str = "slurm") -> int:
    """Submit every run that is not finished. `o`: the options of a sweep; `cluster`: submitit's name of it."""
    import submitit

    executor = submitit.AutoExecutor(folder=str(folder.path / "slurm"), cluster=cluster)
    gpus = 0 if o.gpus == "none" else o.gpus_per_run
    executor.update_parameters(
        name=folder.path.name,
        timeout_min=max(1, round(60 * o.slurm_hours)),
        cpus_per_task=o.cores_per_run,
        **({"gpus_per_node": gpus} if gpus else {}),
        **({"slurm_partition": o.slurm_partition} if o.slurm_partition else {}),
        slurm_additional_parameters={"export": f"ALL,WANDB_RUN_GROUP={folder.path.name}"},
    )
    left = [n for n in folder.names if not folder.finished(n, folder.env_steps(n))]
    jobs = executor.map_array(lambda job: job(), [Job(str(folder.run(n).absolute()), o.retries) for n in left])
    for name, job in zip(left, jobs, strict=True):
        stdout(f"  {name}: job {job.job_id}")
    stdout(f"{len(jobs)} jobs; python -m launch.status {folder.path}")
    return 0
