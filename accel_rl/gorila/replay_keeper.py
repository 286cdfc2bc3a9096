"""The driver's side of the global replay: starts it, and replaces it if it is lost."""

import time
from collections.abc import Callable
from typing import Any

from accel_rl.gorila.deaths import Deaths
from accel_rl.gorila.global_replay import GlobalReplay
from accel_rl.gorila.named_actor import start_named
from accel_rl.gorila.setup import Setup
from accel_rl.system.errors import ConfigError, RunError


class ReplayKeeper:
    """The global replay as a Ray actor. A new process begins empty; the learners wait until it has filled."""

    def __init__(self, ray: Any, setup: Setup, sources: int, event: Callable[[str], None]):
        """sources: number of members that sample. event: notes an unusual event."""
        self._ray, self._setup, self._sources, self._event = ray, setup, sources, event
        self.replaced = 0
        self._deaths = Deaths()
        self._starts_at: float | None = None  # time.monotonic() of the next start; None: there is a process
        self._start()

    def _start(self) -> None:
        self._starts_at = None
        self._actor = start_named(
            self._ray, GlobalReplay, self._setup.replay, self._setup, self._sources, self.replaced
        )
        self._asked = self._actor.size.remote()

    def look(self) -> None:
        """Replace the process if it has died. ConfigError or RunError if it cannot begin."""
        if self._starts_at is not None:
            if time.monotonic() >= self._starts_at:
                self._start()
            return
        if not self._ray.wait([self._asked], timeout=0)[0]:
            return
        errors = self._ray.exceptions
        try:
            if self._ray.get(self._asked):
                self._deaths.worked()
            self._asked = self._actor.size.remote()
        except errors.RayTaskError as e:
            cause = getattr(e, "cause", None)
            kind = ConfigError if isinstance(cause, ConfigError) else RunError
            raise kind(f"global replay: {cause or e}") from e
        except errors.RayActorError as e:
            self.replaced += 1
            pause = self._deaths.died()
            if pause is None:
                line = str(e).splitlines()[0]
                raise RunError(
                    f"the global replay died {self._deaths.in_a_row} times before it held anything: {line}"
                ) from e
            self._event("the global replay was lost: another process takes its place, and fills again")
            self._starts_at = time.monotonic() + pause

    def close(self) -> None:
        """End the process."""
        self._ray.kill(self._actor)
