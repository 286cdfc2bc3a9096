"""Settings of the sampler."""

from dataclasses import dataclass
from typing import Literal

from accel_rl.system.counts import Count, OptionalCount
from accel_rl.system.errors import ConfigError


@dataclass(frozen=True)
class SamplerConfig:
    """Who steps the environments, how many, and for how long between updates."""

    envs: Count = 16
    """B, environments in all (with --update async: of each rank); divides by ranks x groups x workers."""
    horizon: OptionalCount = None
    """T, agent steps that each environment takes between optimisations. Default: as the algorithm's batch asks."""
    groups: OptionalCount = None
    """Alternating groups: one is inferred for while the other steps (Stooke & Abbeel section 4.1: 2). Default: 2. Where
    the emulator plays on the cores that infer, alternating hides nothing: there each group has half of the workers and
    a server thread on their cores, and below 4 environments each, or with an odd number of workers, there is one."""
    inference_per_worker: bool = False
    """Each worker is a group by itself, inferred for in order of arrival; `groups` does not count (Daley & Amato 2021,
    section 4: what synchronized execution, --sampler.groups 1, is faster than)."""
    workers: OptionalCount = None
    """Worker processes, of each rank. Default: one per usable core, as far as envs divide."""
    cores: tuple[int, ...] | None = None
    """Cores to use, such as 0 1 2. Default: those that the affinity mask and the cgroup grant."""
    reset: Literal["immediate", "wait", "swap", "cached"] = "immediate"
    """When an ended episode is reset (section 4.1): at once; in the optimisation pause, skipped until then (wait);
    in the pause, a reserve plays on at once (swap; twice the emulators); never, a stored start is restored (cached)."""
    decorrelation_steps: Count = 300
    """Each environment starts with up to this many uniform-random actions (section 5.3, start state decorrelation)."""
    engine: Literal["workers", "in-process"] = "workers"
    """Worker processes, or everything serially in this one (debugging; the rollouts are the same)."""
    capture: bool = True
    """Capture inference once and replay it without Python (CPU) or as a CUDA graph (GPU), if the agent and all its
    modules are unmodified built-ins. events.log says when it is not captured, and why."""
    timeout_s: float = 60.0
    """A worker that owes an answer for longer counts as hung and is replaced, seconds."""

    def check(self) -> None:
        for name in ("envs", "horizon", "groups", "workers"):
            if (value := getattr(self, name)) is not None and value < 1:
                raise ConfigError(f"--sampler.{name} {value}: must be at least 1")
        if self.decorrelation_steps < 0:
            raise ConfigError(f"--sampler.decorrelation-steps {self.decorrelation_steps}: must be 0 or more")
        if not self.timeout_s > 0:
            raise ConfigError(f"--sampler.timeout-s {self.timeout_s}: must be above 0")
