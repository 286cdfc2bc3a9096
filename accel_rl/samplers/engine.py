"""Defines the interface of engines, which step the environments of a sampler, and the arguments from which an engine is
built."""

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
    """`EngineSetup` describes the environments of a sampler, from which an engine is built. A user's engine,
    `--sampler.engine module:Class`, is built as `Class(setup)`."""

    env: ResolvedEnv
    spec: EnvSpec
    grouping: Grouping
    T: int
    """A rollout has T agent steps of each environment."""
    seed: int
    training: bool = True
    """Whether the environments are for training; False for evaluations."""
    reset: str = "immediate"
    """See `SamplerConfig.reset`."""
    decorrelation_steps: int = 0
    """Each environment starts with at most decorrelation_steps uniform-random actions."""
    first_index: int = 0
    """`first_index` is the index of this rank's first environment among the environments of all ranks."""
    buffers: int = BUFFERS
    """The memory has room for `buffers` rollouts."""
    starts_file: str = ""
    """Episodes begin in states of the file `starts_file`. With an empty string, episodes begin with a reset of the
    environment."""


class WorkersReplaced(Exception):
    """`Engine.get_state` raises `WorkersReplaced` if environments were replaced: the sampler then includes the new
    environments by `Engine.join`, and calls `get_state` again."""


class Engine(Protocol):
    """An engine steps the environments of a sampler in groups. The engines are `WorkerPool` (worker processes),
    `InProcessEngine` and `DeviceEngine`. A group is ready when all requested steps of its environments are done."""

    grouping: Grouping
    buffers: list[RolloutArrays]

    def start(self, restore: bool = False) -> None:
        """Start all environments. With `restore`, the engine begins no episodes, because the caller then sets the
        environments' states."""

    def join(self) -> list[int]:
        """Include workers that became ready, and return their numbers."""

    def absent(self) -> list[slice]:
        """Return the environments that were missing during the whole rollout."""

    def check(self) -> None:
        """Detect workers that died, without waiting."""

    def release(self, group: int, step_index: int, n: int = 1, workers: list[int] | None = None) -> None:
        """Request the steps step_index .. step_index + n - 1 of a group, from all its workers or the given workers.
        `GroupStepper` explains step indices."""

    def wait(self, groups: Sequence[int], ahead: int = 0) -> int:
        """Wait until a group has finished all but its last `ahead` requested steps, and return the group."""

    def is_ready(self, group: int) -> bool:
        """Return whether the group is ready, without waiting."""

    def late_resets(self) -> int:
        """Return the number of episodes that began with an immediate reset, because --sampler.reset swap had no reserve
        ready."""

    def get_state(self) -> list[bytes]:
        """Return one state per environment, in the order of the environments. Raises WorkersReplaced."""

    def set_state(self, states: list[bytes]) -> None: ...

    def reseed(self, seed: int) -> None:
        """Rebuild all environments from another seed, as in a new engine. The rebuilt environments begin new episodes,
        and missing environments return."""

    def close(self) -> None: ...
