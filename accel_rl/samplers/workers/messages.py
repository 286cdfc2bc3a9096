"""This module defines the rare messages between the main process and a worker."""

from dataclasses import dataclass
from typing import Any

from accel_rl.data.shared_memory import Layout


@dataclass(frozen=True, slots=True)
class WorkerSetup:
    """The first message to a worker process describes how to build its environments, and where its shared memory is."""

    worker: int
    parent_pid: int
    core: int | None
    """The worker process is pinned to the core `core`, or not pinned if `core` is None."""
    nice: int
    spins: int
    env: dict[str, Any]
    """`env` has the environments' settings, as the fields of a ResolvedEnv."""
    training: bool
    reset: str
    decorrelation_steps: int
    starts_file: str
    """Episodes begin at the start points in the file `starts_file`, or with a reset if `starts_file` is empty."""
    environments: int
    first_index: int
    """`first_index` is the number of the sampler's first environment in the run, over all ranks."""
    start: bool
    """If true, the worker process begins new episodes. If false, the main process restores saved states."""
    groups: list[int]
    slices: list[tuple[int, int]]
    """`slices` has the range of the worker's environments in each group."""
    seeds: list[list[int]]
    """`seeds` has a seed for each environment of each group."""
    stack: int
    buffers: int
    """The shared memory has room for `buffers` rollouts."""
    rollout_layout: Layout
    rollout_fd: int
    counters_layout: Layout
    counters_fd: int
    event: tuple[int, int]
    """`event` has the file descriptors of the worker's event."""
    server_event: tuple[int, int]


@dataclass(frozen=True, slots=True)
class Request:
    """A `Request` is a message from the main process: get_state, set_state, late_resets, reseed or close."""

    kind: str
    sizes: tuple[tuple[int, ...], ...] = ()
    """A request set_state has in `sizes` the bytes of each environment's state in the blob, by group."""
    seeds: tuple[tuple[int, ...], ...] = ()
    """A request reseed has in `seeds` a seed for each environment of each group."""


@dataclass(frozen=True, slots=True)
class Reply:
    """A `Reply` is a worker's message, which replies to a request or reports that the worker is ready or has failed."""

    is_ready: bool = False
    error: str = ""
    traceback: str = ""
    """`traceback` is the traceback of an error other than this package's own errors."""
    sizes: tuple[tuple[int, ...], ...] = ()
    """A reply to get_state has in `sizes` the bytes of each environment's state in the blob, by group."""
    late_resets: int = 0


MESSAGES: dict[str, type] = {c.__name__: c for c in (WorkerSetup, Request, Reply)}
