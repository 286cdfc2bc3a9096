"""The interface of engines, which step the environments of a sampler, and the arguments of an engine's constructor."""

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
    """The arguments of an engine. With `--sampler.engine module:Class`, a user's engine is built as `Class(setup)`."""

    env: ResolvedEnv
    spec: EnvSpec
    grouping: Grouping
    T: int
    """Number of agent steps of each environment in a rollout."""
    seed: int
    training: bool = True
    """False for evaluation environments."""
    reset: str = "immediate"
    """The setting `SamplerConfig.reset`."""
    decorrelation_steps: int = 0
    """Maximum number of random actions that each environment plays at its start."""
    first_index: int = 0
    """Index of this rank's first environment among the environments of all ranks."""
    buffers: int = BUFFERS
    """Number of rollouts that can be stored at the same time."""
    starts_file: str = ""
    """Path of a file of start points, or "" if episodes begin with a reset."""


class WorkersReplaced(Exception):
    """Raised by `get_state` if worker processes died and their replacements have not joined yet. The sampler then calls
    `Engine.join` to include the replacements, and calls `get_state` again."""


class Engine(Protocol):
    """Steps the environments of a sampler in groups. Implementations are `WorkerPool` (worker processes),
    `InProcessEngine` and `DeviceEngine`. A group is ready when all requested steps of its environments are done."""

    grouping: Grouping
    buffers: list[RolloutArrays]

    def start(self, restore: bool = False) -> None:
        """Start the environments and begin their first episodes. With `restore`, no episodes begin, because the caller
        then restores the environments' states."""

    def join(self) -> list[int]:
        """Include the worker processes that became ready since the last call, and return their indices."""

    def absent(self) -> list[slice]:
        """Return the environments that are not stepped in the current rollout, because their worker process died and
        its replacement has not joined yet."""

    def check(self) -> None:
        """Detect worker processes that died, without waiting."""

    def release(self, group: int, step_index: int, n: int = 1, workers: list[int] | None = None) -> None:
        """Request n steps of a group from the given workers (by default all). `step_index`, the index of the first
        step, is explained in `GroupStepper`."""

    def wait(self, groups: Sequence[int], ahead: int = 0) -> int:
        """Wait until one of the groups has finished its requested steps, except the last `ahead` ones, and return this
        group."""

    def is_ready(self, group: int) -> bool: ...

    def late_resets(self) -> int:
        """With --sampler.reset swap, return how many episodes began with an immediate reset, because the spare
        environment was not ready."""

    def get_state(self) -> list[bytes]:
        """Return the state of each environment, in the order of the environments. Raises WorkersReplaced."""

    def set_state(self, states: list[bytes]) -> None: ...

    def reseed(self, seed: int) -> None:
        """Create all environments again with another seed, including those of dead workers, and begin new episodes."""

    def close(self) -> None: ...


class WithoutWorkers:
    """Base class of engines without worker processes: when `release` returns, the steps are done, or queued on a
    GPU."""

    _has_joined = False

    def join(self) -> list[int]:
        """Return [0] at the first call, and then [], like a `WorkerPool` with one worker process."""
        joined, self._has_joined = ([] if self._has_joined else [0]), True
        return joined

    def absent(self) -> list[slice]:
        return []

    def check(self) -> None:
        """Do nothing, because there are no worker processes that could die."""

    def wait(self, groups: Sequence[int], ahead: int = 0) -> int:
        return groups[0]

    def is_ready(self, group: int) -> bool:
        return True
