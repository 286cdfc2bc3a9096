"""Rare messages between the main process and a worker."""

from dataclasses import dataclass
from typing import Any

from accel_rl.data.shared_memory import Layout


@dataclass(frozen=True, slots=True)
class WorkerSetup:
    """The first message to a worker process describes how to build its environments, and where its shared memory is."""

    worker: int
    parent_pid: int
    core: int | None
    """The core to which the worker is pinned, or None if the worker is not pinned."""
    nice: int
    spins: int
    env: dict[str, Any]
    """The fields of the environments' ResolvedEnv."""
    training: bool
    reset: str
    decorrelation_steps: int
    starts_file: str
    """File of saved states in which episodes begin. With an empty string, episodes begin with a reset of the
    environment."""
    environments: int
    """Number of environments of all workers."""
    start: bool
    """Whether the worker begins episodes; otherwise the main process sets the environments' states next."""
    groups: list[int]
    slices: list[tuple[int, int]]
    """The range of the worker's environments in each group."""
    seeds: list[list[int]]
    """One seed per environment, by group."""
    stack: int
    buffers: int
    """Number of rollouts in shared memory."""
    rollout_layout: Layout
    rollout_fd: int
    counters_layout: Layout
    counters_fd: int
    event: tuple[int, int]
    """File descriptors of the worker's event."""
    server_event: tuple[int, int]


@dataclass(frozen=True, slots=True)
class Request:
    """A message from the main process: get_state, set_state, late_resets, reseed or close."""

    kind: str
    sizes: tuple[tuple[int, ...], ...] = ()
    """The number of bytes of each environment's state in the blob, by group (for set_state)."""
    seeds: tuple[tuple[int, ...], ...] = ()
    """One seed per environment, by group (for reseed)."""


@dataclass(frozen=True, slots=True)
class Reply:
    """A worker's message, which replies to a request or reports that the worker is ready or has failed."""

    is_ready: bool = False
    error: str = ""
    traceback: str = ""
    """Traceback of an error other than this package's own errors."""
    sizes: tuple[tuple[int, ...], ...] = ()
    """The number of bytes of each environment's state in the blob, by group (for get_state)."""
    late_resets: int = 0


MESSAGES: dict[str, type] = {c.__name__: c for c in (WorkerSetup, Request, Reply)}
