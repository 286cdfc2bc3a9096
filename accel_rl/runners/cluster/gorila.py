"""`--cluster gorila`: a run on a Ray cluster, from its settings to its result."""

from typing import Any

from accel_rl.config.train import TrainConfig
from accel_rl.runners.cluster.driver import Driver
from accel_rl.runners.cluster.session import local_ray
from accel_rl.runners.result import Result
from accel_rl.runners.run_folder import RunFolder
from accel_rl.system import hardware


def train(config: TrainConfig, run: RunFolder, state: dict[str, Any] | None) -> Result:
    """Train from a checkpoint's state, or from the beginning (None). ConfigError, RunError."""
    with local_ray(cpus=len(hardware.usable_cores(config.sampler.cores))) as ray:
        return Driver(ray, config, run, state).train()
