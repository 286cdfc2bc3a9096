"""The driver of a cluster run starts the processes of the evaluator and the global replay, and replaces dead ones."""

import logging
import time
from collections.abc import Callable
from typing import Any

from accel_rl.gorila.ray_session import start_named
from accel_rl.text.errors import ConfigError, RunError

logger = logging.getLogger(__name__)

MOST = 3  # After MOST or more consecutive deaths, a pause precedes the restart of a process.
OVER_S = 300.0  # The run ends after more than MOST consecutive deaths and OVER_S seconds without progress.
MAX_PAUSE_S = 30.0  # Maximum pause before a dead process is replaced, in seconds


def pause_after(deaths: int) -> float:
    """The seconds to wait before a process is replaced after `deaths` consecutive deaths."""
    return min(2.0 ** (deaths - MOST), MAX_PAUSE_S) if deaths >= MOST else 0.0


class Deaths:
    """Counts consecutive deaths of one kind of process, and decides when the deaths must end the run. Progress of the
    process resets the count."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self.worked()

    def worked(self) -> None:
        """Reset the number of consecutive deaths, because a process has made progress."""
        self.in_a_row, self._since = 0, self._clock()

    def died(self) -> float | None:
        """Count a death, and return the seconds to wait before a replacement starts, or None if the run must end."""
        self.in_a_row += 1
        if self.in_a_row > MOST and self._clock() - self._since > OVER_S:
            return None
        return pause_after(self.in_a_row)


def task_error(what: str, error: Any) -> ConfigError | RunError:
    """Return the error that a Ray actor raised in a call, with `what`, the actor's description, in the message."""
    cause = error.cause
    if isinstance(cause, ConfigError | RunError):
        return type(cause)(f"{what}: {cause}")
    return RunError(f"{what}: {' '.join(str(error).split())[-500:]}")


class Keeper:
    """Starts a Ray actor at the first call, and replaces the actor when its process dies."""

    def __init__(self, ray: Any, what: str, *arguments: Any):
        """`what` describes the actor in messages. `arguments` are the actor's class and name, and the arguments of the
        class."""
        self._ray, self._what, self._arguments = ray, what, arguments
        self._actor: Any = None
        self._call: Any = None  # The pending call of the actor
        self._starts_at = 0.0  # The time at which a dead actor's replacement starts
        self.deaths = Deaths()
        self.replaced = 0

    def ask(self, method: str, *arguments: Any) -> None:
        """Call the actor, unless a call is pending or the pause after the actor's death is not over."""
        if self._call is not None or time.monotonic() < self._starts_at:
            return
        if self._actor is None:
            self._actor = start_named(self._ray, *self._arguments)
        self._call = getattr(self._actor, method).remote(*arguments)

    def answer(self, wait_s: float = 0.0) -> Any:
        """Wait at most `wait_s` for the answer to the pending call. Return None if no answer has arrived or the actor
        has died. Raises ConfigError or RunError if the call failed, or if the actor dies repeatedly."""
        if self._call is None:
            time.sleep(wait_s)
            return None
        if not self._ray.wait([self._call], timeout=wait_s)[0]:
            return None
        call, self._call = self._call, None
        try:
            return self._ray.get(call)
        except self._ray.exceptions.RayTaskError as e:
            raise task_error(self._what, e) from e
        except self._ray.exceptions.RayActorError as e:
            self._lost(e)
            return None

    def _lost(self, error: Exception) -> None:
        self._actor = None
        self.replaced += 1
        pause = self.deaths.died()
        if pause is None:
            line = str(error).splitlines()[0]
            raise RunError(f"{self._what} died {self.deaths.in_a_row} times in a row: {line}") from error
        self._starts_at = time.monotonic() + pause
        logger.warning(f"{self._what} died: another process takes its place")

    def close(self) -> None:
        if self._actor is not None:
            self._ray.kill(self._actor)
