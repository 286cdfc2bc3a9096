"""Settings of the sampler."""

from dataclasses import dataclass
from typing import Literal

from accel_rl.samplers.grouping import NamesEngine
from accel_rl.text.bounds import NonNegativeCount, PositiveCount
from accel_rl.text.errors import ConfigError


@dataclass(frozen=True)
class SamplerConfig(NamesEngine):
    """Environments, worker processes and inference."""

    envs: PositiveCount = 16
    """Total number B of environments, a multiple of ranks x groups x workers. With --update async, B is the number of
    environments of each rank."""
    horizon: PositiveCount | None = None
    """Number T of agent steps of each environment between optimisation phases. The default horizon is derived from the
    algorithm's batch size."""
    groups: PositiveCount | None = None
    """Number of alternating groups of environments. Inference for one group runs while another group steps (Stooke &
    Abbeel section 4.1: 2). By default there are 2 groups of environments, or 1 group for an odd number of environments.
    With the emulator on a CPU, the default is two groups, each with half of the workers and its own inference thread.
    If the number of workers is odd, or a group would have fewer than 4 environments, the default is one group."""
    inference_per_worker: bool = False
    """Run inference for each worker separately, in order of arrival. --sampler.groups is then ignored. Daley & Amato
    2021, section 4, compare inference per worker with synchronized execution (--sampler.groups 1)."""
    workers: PositiveCount | None = None
    """Number of worker processes of each rank. The default number of worker processes is one per usable core, or a
    smaller number that divides --sampler.envs."""
    cores: tuple[int, ...] | None = None
    """Cores that the run uses, such as 0-3,8. By default the run uses all cores that the affinity mask and the cgroup
    allow."""
    reset: Literal["immediate", "wait", "swap", "cached"] = "immediate"
    """When an environment is reset after its episode has ended (section 4.1). With `immediate`, the environment is
    reset within the same step. With `wait`, the environment is reset during the next optimisation phase, and not
    stepped before this phase. With `swap`, a spare environment plays until the environment is reset during the next
    optimisation phase; spare environments double the number of emulators. With `cached`, a stored start state is
    restored within the same step."""
    decorrelation_steps: NonNegativeCount = 300
    """Maximum number of uniformly random actions that each environment plays before its first rollout (section 5.3,
    decorrelation)."""
    engine: str = "workers"
    """Engine that steps the environments. With `workers`, worker processes step the environments. With `in-process`,
    the learner's process steps the environments, for debugging, with the same rollouts. With `device`, Atari is
    emulated on the learner's GPU (Dalton & Frosio 2020), or slowly on a CPU. `module:Class` is a user's engine."""
    capture: bool = True
    """Capture the operations of inference once, and replay them without Python (on a GPU, as a CUDA graph). Only the
    inference of built-in agents and network modules is captured. If inference is not captured, events.log contains the
    reason."""
    timeout_s: float = 60.0
    """Seconds after which a worker process that does not answer is replaced. At the end of a run, environments must
    close within this time."""
    on_error: Literal["stop", "restart"] = "stop"
    """Reaction to an environment that raises an error. With `stop`, the run ends. With `restart`, the worker process is
    replaced, and its part of the rollout is dropped, as if the worker had died."""
    start_timeout_s: float = 120.0
    """Seconds after which a worker process that has not created and reset its environments is replaced."""

    @property
    def spec_timeout_s(self) -> float | None:
        """Time limit in seconds for another process to create an environment and report its spec. The limit is None
        without worker processes, because this process then creates the environment itself."""
        return self.start_timeout_s if self.has_workers else None

    def check(self) -> None:
        if (self.groups or 1) > self.envs:
            raise ConfigError(f"--sampler.groups {self.groups}: must be at most --sampler.envs {self.envs}")
