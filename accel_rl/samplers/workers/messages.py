"""The rare messages between the main process and a worker."""

from dataclasses import dataclass
from typing import Any

from accel_rl.data.shared_memory import Layout


@dataclass(frozen=True, slots=True)
class WorkerSetup:
    """The first message to a worker process: how to build its environments, and where to find shared memory."""

    worker: int
    parent_pid: int
    core: int | None
    """The core to pin itself to; None: not pinned."""
    nice: int
    spins: int
    env: dict[str, Any]
    """The fields of a ResolvedEnv."""
    training: bool
    reset: str
    decorrelation_steps: int
    starts_file: str
    """Of saved starts of episodes; "": episodes begin with a reset."""
    environments: int
    """Number of environments of all workers."""
    start: bool
    """Whether to begin episodes; else states are set next."""
    groups: list[int]
    slices: list[tuple[int, int]]
    """For each group, the range of the worker's environments b."""
    seeds: list[list[int]]
    """For each group, one seed for each environment."""
    stack: int
    buffers: int
    """Rollouts in shared memory."""
    rollout_layout: Layout
    rollout_fd: int
    counters_layout: Layout
    counters_fd: int
    event: tuple[int, int]
    """Descriptors of the worker's event."""
    server_event: tuple[int, int]


@dataclass(frozen=True, slots=True)
class Request:
    """A message from the main process: get_state, set_state, late_resets, reseed or close."""

    kind: str
    sizes: tuple[tuple[int, ...], ...] = ()
    """set_state: by group, the bytes of each environment's state in the blob."""
    seeds: tuple[tuple[int, ...], ...] = ()
    """reseed: by group, one for each environment."""


@dataclass(frozen=True, slots=True)
class Reply:
    """A message from a worker: the reply to a request, or sent by itself when the worker is ready or has failed."""

    is_ready: bool = False
    error: str = ""
    """One line."""
    traceback: str = ""
    """Of an error that is none of this package's own."""
    sizes: tuple[tuple[int, ...], ...] = ()
    """get_state: by group, the bytes of each environment's state in the blob."""
    late_resets: int = 0


MESSAGES: dict[str, type] = {c.__name__: c for c in (WorkerSetup, Request, Reply)}
