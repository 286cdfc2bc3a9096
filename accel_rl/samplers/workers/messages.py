"""The messages that the main process and a worker exchange over their socket."""

from dataclasses import dataclass
from typing import Any

from accel_rl.data.shared_memory import Layout


@dataclass(frozen=True, slots=True)
class WorkerSetup:
    """The first message to a worker process: its environments and shared memory."""

    worker: int
    parent_pid: int
    core: int | None
    """The core to which the worker process is pinned, or None if the process is not pinned."""
    nice: int
    spins: int
    env: dict[str, Any]
    """The fields of a ResolvedEnv."""
    training: bool
    reset: str
    decorrelation_steps: int
    starts_file: str
    """Path of a file of start points, or "" if episodes begin with a reset."""
    environments: int
    first_index: int
    """Index of the sampler's first environment among the environments of all ranks."""
    start: bool
    """Whether to begin new episodes. If false, the main process will restore saved states."""
    groups: list[int]
    slices: list[tuple[int, int]]
    """The range (start, stop) of the worker's environments in each of its groups."""
    seeds: list[list[int]]
    """The seeds of the environments in each of the worker's groups."""
    stack: int
    buffers: int
    """Number of rollouts in the shared memory."""
    rollout_layout: Layout
    rollout_fd: int
    counters_layout: Layout
    counters_fd: int
    event: tuple[int, int]
    """File descriptors (to read, to write) of the event that wakes the worker."""
    server_event: tuple[int, int]


@dataclass(frozen=True, slots=True)
class Request:
    """A message from the main process: get_state, set_state, late_resets, reseed or close."""

    kind: str
    sizes: tuple[tuple[int, ...], ...] = ()
    """For set_state: the number of bytes of each environment's state, in one tuple for each group."""
    seeds: tuple[tuple[int, ...], ...] = ()
    """For reseed: the new seed of each environment, in one tuple for each group."""


@dataclass(frozen=True, slots=True)
class Reply:
    """Answers a request, or reports that the worker is ready or has failed."""

    is_ready: bool = False
    error: str = ""
    traceback: str = ""
    """The error's traceback, or the error's notes if accel_rl itself raised it."""
    sizes: tuple[tuple[int, ...], ...] = ()
    """For get_state: the number of bytes of each environment's state, in one tuple for each group."""
    late_resets: int = 0


MESSAGES: dict[str, type] = {c.__name__: c for c in (WorkerSetup, Request, Reply)}
