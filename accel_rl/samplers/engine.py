"""Defines the interface of engines, which step a sampler's environments, and the arguments from which an engine is
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
    """An `EngineSetup` describes the environments that an engine steps. With `--sampler.engine module:Class`, a user's
    engine is built as `Class(setup)`."""

    env: ResolvedEnv
    spec: EnvSpec
    grouping: Grouping
    T: int
    """A rollout has T agent steps of each environment."""
    seed: int
    training: bool = True
    """`training` is true for training environments, and false for evaluation environments."""
    reset: str = "immediate"
    """`reset` is explained by the setting `SamplerConfig.reset`."""
    decorrelation_steps: int = 0
    """Each environment first plays at most `decorrelation_steps` uniformly random actions."""
    first_index: int = 0
    """`first_index` is the index of this rank's first environment among the environments of all ranks."""
    buffers: int = BUFFERS
    """The rollout memory has room for `buffers` rollouts."""
    starts_file: str = ""
    """Episodes begin at the start points in the file `starts_file`, or with a reset if `starts_file` is empty."""


class WorkersReplaced(Exception):
    """`Engine.get_state` raises `WorkersReplaced` if workers died and their replacements have not joined yet. The
    sampler then calls `Engine.join` to include the new workers' environments, and calls `get_state` again."""


class Engine(Protocol):
    """An engine steps the environments of a sampler in groups. The engines are `WorkerPool` (worker processes),
    `InProcessEngine` and `DeviceEngine`. A group is ready when all requested steps of its environments are done."""

    grouping: Grouping
    buffers: list[RolloutArrays]

    def start(self, restore: bool = False) -> None:
        """Start all environments. With `restore`, the engine begins no episodes, because the caller restores the
        environments' states."""

    def join(self) -> list[int]:
        """Include the worker processes that became ready since the last call, and return their indices."""

    def absent(self) -> list[slice]:
        """Return the slices of environments that the current rollout does not step, because their worker process died
        and its replacement has not joined yet."""

    def check(self) -> None:
        """Detect worker processes that died, without waiting."""

    def release(self, group: int, step_index: int, n: int = 1, workers: list[int] | None = None) -> None:
        """Request n steps of a group of environments, beginning with `step_index`. The request is sent to the given
        worker processes, by default to all workers of the group. The class `GroupStepper` explains step indices."""

    def wait(self, groups: Sequence[int], ahead: int = 0) -> int:
        """Wait until one of the groups of environments has finished its requested steps, except for the last `ahead`
        steps. Return this group."""

    def is_ready(self, group: int) -> bool:
        """Return whether a group of environments has finished its requested steps."""

    def late_resets(self) -> int:
        """Return the number of episodes that began with an immediate reset, because with --sampler.reset swap the
        reserve environment was not ready."""

    def get_state(self) -> list[bytes]:
        """Return one state per environment, in the order of the environments. Raises WorkersReplaced."""

    def set_state(self, states: list[bytes]) -> None: ...

    def reseed(self, seed: int) -> None:
        """Rebuild all environments from another seed, including environments of dead workers, and begin new
        episodes."""

    def close(self) -> None: ...
