"""This module defines the messages that the main process and a worker exchange over their socket."""

from dataclasses import dataclass
from typing import Any

from accel_rl.data.shared_memory import Layout


@dataclass(frozen=True, slots=True)
class WorkerSetup:
    """`WorkerSetup`, the first message to a worker process, describes the worker's environments and shared memory."""

    worker: int
    parent_pid: int
    core: int | None
    """`core` is the core to which the worker process is pinned, or None if the process is not pinned."""
    nice: int
    spins: int
    env: dict[str, Any]
    """`env` contains the environments' settings: the fields of a ResolvedEnv."""
    training: bool
    reset: str
    decorrelation_steps: int
    starts_file: str
    """Episodes begin at the start points in the file `starts_file`, or with a reset if `starts_file` is empty."""
    environments: int
    first_index: int
    """`first_index` is the index of the sampler's first environment among the environments of all ranks."""
    start: bool
    """If true, the worker process begins new episodes. If false, the main process restores saved states."""
    groups: list[int]
    slices: list[tuple[int, int]]
    """`slices` lists the (start, stop) of the worker's environments in each of its groups."""
    seeds: list[list[int]]
    """`seeds` lists, for each of the worker's groups, the seeds of its environments."""
    stack: int
    buffers: int
    """The shared memory has room for `buffers` rollouts."""
    rollout_layout: Layout
    rollout_fd: int
    counters_layout: Layout
    counters_fd: int
    event: tuple[int, int]
    """`event` contains the file descriptors (to read, to write) of the event that wakes the worker."""
    server_event: tuple[int, int]


@dataclass(frozen=True, slots=True)
class Request:
    """A `Request` is a message from the main process: get_state, set_state, late_resets, reseed or close."""

    kind: str
    sizes: tuple[tuple[int, ...], ...] = ()
    """In a request set_state, `sizes` lists for each group the number of bytes of each environment's state in the
    blob."""
    seeds: tuple[tuple[int, ...], ...] = ()
    """In a request reseed, `seeds` lists for each group the new seed of each environment."""


@dataclass(frozen=True, slots=True)
class Reply:
    """A `Reply` is a message from a worker that answers a request, or reports that the worker is ready or has
    failed."""

    is_ready: bool = False
    error: str = ""
    traceback: str = ""
    """`traceback` is the traceback of an unexpected error, or the notes of one of this package's own errors."""
    sizes: tuple[tuple[int, ...], ...] = ()
    """In a reply to get_state, `sizes` lists for each group the number of bytes of each environment's state in the
    blob."""
    late_resets: int = 0


MESSAGES: dict[str, type] = {c.__name__: c for c in (WorkerSetup, Request, Reply)}
