"""Settings of the sampler."""

from dataclasses import dataclass
from typing import Literal

from accel_rl.system.counts import Count, OptionalCount
from accel_rl.system.errors import ConfigError


@dataclass(frozen=True)
class SamplerConfig:
    """How many environments are stepped, by what, and for how long between updates."""

    envs: Count = 16
    """B, number of environments in all (with --update async: of each rank); must divide by ranks x groups x workers."""
    horizon: OptionalCount = None
    """T, agent steps of each environment between optimisations. Default: as the algorithm's batch requires."""
    groups: OptionalCount = None
    """Number of alternating groups: inference for one runs while another steps (Stooke & Abbeel section 4.1: 2).
    Default: 2. With the emulator on a CPU the default is two groups with half of the workers and an inference thread
    each, or one group if the number of workers is odd or a group would have fewer than 4 environments."""
    inference_per_worker: bool = False
    """Make each worker a group of its own, inferred for in order of arrival; --sampler.groups is ignored (Daley & Amato
    2021, section 4, compare it with synchronized execution, which is --sampler.groups 1)."""
    workers: OptionalCount = None
    """Number of worker processes of each rank. Default: one per usable core, as far as --sampler.envs divides."""
    cores: tuple[int, ...] | None = None
    """Cores to use, such as 0 1 2. Default: all that the affinity mask and the cgroup grant."""
    reset: Literal["immediate", "wait", "swap", "cached"] = "immediate"
    """When an ended episode is reset (section 4.1). immediate: at once. wait: in the optimisation pause; until then the
    environment is skipped. swap: in the pause, while a reserve goes on (twice the emulators). cached: never; a stored
    start state is restored."""
    decorrelation_steps: Count = 300
    """Largest number of uniform-random actions that each environment begins with (section 5.3, decorrelation)."""
    engine: Literal["workers", "in-process"] = "workers"
    """workers: processes step the environments. in-process: the learner's process does, for debugging; the rollouts are
    the same."""
    capture: bool = True
    """Capture inference once and replay it without Python (CPU) or as a CUDA graph (GPU), if the agent and all its
    modules are unmodified built-ins. events.log says when it is not captured, and why."""
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
