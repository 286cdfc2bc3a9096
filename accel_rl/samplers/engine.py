"""Engines step the environments of a sampler. This module has their interface, and the arguments from which an engine
is built."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from accel_rl.data.rollout_arrays import RolloutArrays
from accel_rl.data.spec import EnvSpec
from accel_rl.envs.make import ResolvedEnv
from accel_rl.samplers.grouping import Grouping
from accel_rl.samplers.workers.stepper import BUFFERS


@dataclass(frozen=True, slots=True)
class EngineSetup:
    """The environments of a sampler, from which an engine is built. A user's engine, `--sampler.engine module:Class`,
    is built as `Class(setup)`."""

    env: ResolvedEnv
    spec: EnvSpec
    grouping: Grouping
    T: int
    """Agent steps of each environment in a rollout."""
    seed: int
    training: bool = True
    """False for evaluations."""
    reset: str = "immediate"
    """See `SamplerConfig.reset`."""
    decorrelation_steps: int = 0
    """Maximum number of uniform-random actions at the start of each environment."""
    first_index: int = 0
    """Index of this rank's first environment among the environments of all ranks."""
    buffers: int = BUFFERS
    """Number of rollouts in memory."""
    starts_file: str = ""
    """File of saved states in which episodes begin. With "", episodes begin with a reset."""


class Engine(Protocol):
    """Step environments in groups. The classes are `WorkerPool` (worker processes) and `InProcessEngine`. A group is
    ready when none of its environments owes a step."""

    grouping: Grouping
    buffers: list[RolloutArrays]

    def start(self, restore: bool = False) -> None:
        """Start all environments. With `restore` no first episode is begun, because the states are set next."""

    def join(self) -> list[int]:
        """Include workers that became ready, and return their numbers."""

    def absent(self) -> list[slice]:
        """Return the environments that were missing in the whole rollout."""

    def check(self) -> None:
        """Detect workers that died, without waiting."""

    def release(self, group: int, step_index: int, n: int = 1, workers: list[int] | None = None) -> None:
        """Request the steps step_index .. step_index + n - 1 of a group, from all its workers or the given workers. See
        `GroupStepper`."""

    def wait(self, groups: Sequence[int], ahead: int = 0) -> int:
        """Wait until one of the groups is ready, except for its last `ahead` steps, and return this group."""

    def is_ready(self, group: int) -> bool:
        """Return whether the group is ready, without waiting."""

    def late_resets(self) -> int:
        """With --sampler.reset swap: number of episodes that began with an immediate reset, because no reserve was
        ready."""

    def get_state(self) -> list[bytes]:
        """Return one state per environment, in the order of b."""

    def set_state(self, states: list[bytes]) -> None: ...

    def reseed(self, seed: int) -> None:
        """Rebuild all environments from another seed, as in a new engine. They begin new episodes, and missing
        environments return."""

    def close(self) -> None: ...
