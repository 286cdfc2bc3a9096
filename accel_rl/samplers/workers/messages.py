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
    """The core that the worker is pinned to, or None if it is not pinned."""
    nice: int
    spins: int
    env: dict[str, Any]
    """The fields of a ResolvedEnv."""
    training: bool
    reset: str
    decorrelation_steps: int
    starts_file: str
    """File of saved states in which episodes begin. With "", episodes begin with a reset."""
    environments: int
    """Number of environments of all workers."""
    start: bool
    """Whether to begin episodes. Otherwise states are set next."""
    groups: list[int]
    slices: list[tuple[int, int]]
    """The range of the worker's environments b in each group."""
    seeds: list[list[int]]
    """One seed per environment, by group."""
    stack: int
    buffers: int
    """Rollouts in shared memory."""
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
    """For set_state: number of bytes of each environment's state in the blob, by group."""
    seeds: tuple[tuple[int, ...], ...] = ()
    """For reseed: one seed per environment, by group."""


@dataclass(frozen=True, slots=True)
class Reply:
    """A message from a worker: the reply to a request, or a notice that the worker is ready or has failed."""

    is_ready: bool = False
    error: str = ""
    """One line."""
    traceback: str = ""
    """Traceback of an error other than this package's own errors."""
    sizes: tuple[tuple[int, ...], ...] = ()
    """For get_state: number of bytes of each environment's state in the blob, by group."""
    late_resets: int = 0


MESSAGES: dict[str, type] = {c.__name__: c for c in (WorkerSetup, Request, Reply)}
