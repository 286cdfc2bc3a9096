"""Pull the central parameters while an asynchronous rank samples (Stooke & Abbeel 2018, sections 4.3 and 5.3)."""

from collections.abc import Iterator
from contextlib import contextmanager
from threading import Condition, Lock
from typing import TYPE_CHECKING, Any

from accel_rl.agents.agent import Agent

if TYPE_CHECKING:
    from accel_rl.distributed.locked_chunk import LockedChunks  # Only asynchronous ranks import this module.


class PullingAgent:
    """Wraps an agent, and pulls the central parameters each time every environment has played `steps` steps.

    For the environments b, the action server first calls `before_act(b)`, and then `act` within the context `acting()`.
    Several threads may act at the same time, each for its own group of environments. A pull waits until no thread is
    acting, and threads wait during a pull, so that inference never reads partly replaced parameters.
    """

    def __init__(self, agent: Agent, gradient_sync: "LockedChunks", steps: int):
        self.wrapped = agent
        self._gradient_sync = gradient_sync
        self._steps = steps
        # {first environment of a group: number of the group's inference calls since the last pull}
        self._acted: dict[int, int] = {}
        self._refreshed = gradient_sync.refreshed
        self._counting = Lock()  # The lock is held while inference calls are counted and parameters are pulled.
        self._idle = Condition()
        self._threads_acting = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self.wrapped, name)

    def begin(self) -> None:
        """Before a rollout, push the remaining local updates and pull the central parameters."""
        self._gradient_sync.pull_now()

    def before_act(self, b: slice) -> None:
        """Pull the central parameters if a pull is due, and then count one inference call for the environments `b`."""
        gradient_sync, group = self._gradient_sync, b.start or 0
        gradient_sync.beat()
        with self._counting:
            if gradient_sync.refreshed != self._refreshed:
                self._refreshed, self._acted = gradient_sync.refreshed, {}
            if self._acted.get(group, 0) >= self._steps:
                with self._nothing_acting():
                    gradient_sync.pull_now()
                self._refreshed, self._acted = gradient_sync.refreshed, {}
            self._acted[group] = self._acted.get(group, 0) + 1

    @contextmanager
    def acting(self) -> Iterator[None]:
        """A context in which a thread uses the parameters to act."""
        with self._idle:
            self._threads_acting += 1
        try:
            yield
        finally:
            with self._idle:
                self._threads_acting -= 1
                self._idle.notify_all()

    @contextmanager
    def _nothing_acting(self) -> Iterator[None]:
        """A context in which no thread acts. Entering the context waits until all threads have finished acting."""
        with self._idle:
            self._idle.wait_for(lambda: self._threads_acting == 0)
            yield
