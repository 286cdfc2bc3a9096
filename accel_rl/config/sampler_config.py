"""Settings of the sampler."""

from dataclasses import dataclass
from typing import Literal

from accel_rl.samplers.names_engine import NamesEngine
from accel_rl.system.counts import Count, OptionalCount
from accel_rl.system.errors import ConfigError


@dataclass(frozen=True)
class SamplerConfig(NamesEngine):
    """Sampling: environments, workers, inference."""

    envs: Count = 16
    """B, total number of environments (with --update async, of each rank). It must be a multiple of ranks x groups x
    workers."""
    horizon: OptionalCount = None
    """T, agent steps of each environment between optimisations. Default: follows from the algorithm's batch size."""
    groups: OptionalCount = None
    """Number of alternating groups: inference for one group runs while another steps (Stooke & Abbeel section 4.1: 2).
    Default: 2, or 1 for an odd number of environments. With the emulator on a CPU the default is two groups with half
    of the workers and an inference thread each, or one group if the number of workers is odd or a group would have
    fewer than 4 environments."""
    inference_per_worker: bool = False
    """Run inference for each worker separately, in order of arrival; --sampler.groups is ignored. Daley & Amato 2021,
    section 4, compare this with synchronized execution, which is --sampler.groups 1."""
    workers: OptionalCount = None
    """Number of worker processes of each rank. Default: one per usable core, or a smaller number that divides
    --sampler.envs."""
    cores: tuple[int, ...] | None = None
    """Cores to use, such as 0 1 2. Default: all cores that the affinity mask and the cgroup allow."""
    reset: Literal["immediate", "wait", "swap", "cached"] = "immediate"
    """Time of the reset after an episode (section 4.1). immediate: within the same step. wait: during the next
    optimisation; until then the environment is skipped. swap: during the next optimisation, while a spare environment
    continues (twice the number of emulators). cached: within the same step, by restoring a stored start state."""
    decorrelation_steps: Count = 300
    """Maximum number of uniform-random actions at the start of each environment (section 5.3, decorrelation)."""
    engine: str = "workers"
    """workers: worker processes step the environments. in-process: the learner's process steps them, for debugging,
    with the same rollouts. device: Atari is emulated on the learner's device, and frames stay on it (Dalton & Frosio
    2020); on a CPU a slow build of the same kernels runs. module:Class: an engine of yours."""
    capture: bool = True
    """Capture inference once and replay it without Python (CPU) or as a CUDA graph (GPU), if the agent and all its
    modules are unmodified built-ins. If inference is not captured, events.log contains the reason."""
    timeout_s: float = 60.0
    """Seconds after which a worker that does not answer counts as hung and is replaced."""

    def check(self) -> None:
        for name in ("envs", "horizon", "groups", "workers"):
            if (value := getattr(self, name)) is not None and value < 1:
                raise ConfigError(f"--sampler.{name} {value}: must be at least 1")
        if self.decorrelation_steps < 0:
            raise ConfigError(f"--sampler.decorrelation-steps {self.decorrelation_steps}: must be 0 or more")
        if not self.timeout_s > 0:
            raise ConfigError(f"--sampler.timeout-s {self.timeout_s}: must be above 0")
