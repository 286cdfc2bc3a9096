"""`--cluster gorila`: a run on a Ray cluster, from its settings to its result."""

from contextlib import AbstractContextManager
from typing import Any

from accel_rl.config.train import TrainConfig
from accel_rl.runners.cluster.driver import Driver
from accel_rl.runners.cluster.running_cluster import cluster_ray
from accel_rl.runners.cluster.session import local_ray
from accel_rl.runners.result import Result
from accel_rl.runners.run_folder import RunFolder
from accel_rl.system import hardware


def train(config: TrainConfig, run: RunFolder, state: dict[str, Any] | None) -> Result:
    """Train from a checkpoint's state, or from the beginning (None). ConfigError, RunError."""
    with ray_of(config) as ray:
        return Driver(ray, config, run, state).train()


def ray_of(config: TrainConfig) -> AbstractContextManager[Any]:
    """Connect to the Ray cluster at --address, or start Ray on this machine. ConfigError, RunError."""
    if config.address:
        return cluster_ray(config.address)
    return local_ray(cpus=len(hardware.usable_cores(config.sampler.cores)))
