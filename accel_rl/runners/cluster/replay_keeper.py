"""The driver's side of the global replay: starts it, and replaces it if it is lost."""

from collections.abc import Callable
from typing import Any

from accel_rl.runners.cluster.global_replay import GlobalReplay
from accel_rl.runners.cluster.named_actor import start_named
from accel_rl.runners.cluster.setup import Setup
from accel_rl.system.errors import ConfigError, RunError

MAX_LOST = 3  # processes in a row that die before they held a transition


class ReplayKeeper:
    """The global replay as a Ray actor. A new process begins empty; the learners wait until it has filled."""

    def __init__(self, ray: Any, setup: Setup, sources: int, event: Callable[[str], None]):
        """sources: number of members that sample. event: notes an unusual event."""
        self._ray, self._setup, self._sources, self._event = ray, setup, sources, event
        self.replaced = 0
        self._lost_in_a_row = 0
        self._start()

    def _start(self) -> None:
        self._actor = start_named(
            self._ray, GlobalReplay, self._setup.replay, self._setup, self._sources, self.replaced
        )
        self._asked = self._actor.size.remote()

    def look(self) -> None:
        """Replace the process if it has died. ConfigError or RunError if it cannot begin."""
        if not self._ray.wait([self._asked], timeout=0)[0]:
            return
        errors = self._ray.exceptions
        try:
            if self._ray.get(self._asked):
                self._lost_in_a_row = 0
            self._asked = self._actor.size.remote()
        except errors.RayTaskError as e:
            cause = getattr(e, "cause", None)
            kind = ConfigError if isinstance(cause, ConfigError) else RunError
            raise kind(f"global replay: {cause or e}") from e
        except errors.RayActorError as e:
            self.replaced, self._lost_in_a_row = self.replaced + 1, self._lost_in_a_row + 1
            if self._lost_in_a_row >= MAX_LOST:
                raise RunError(f"the global replay died {MAX_LOST} times in a row: {e}") from e
            self._event("the global replay was lost: another process takes its place, and fills again")
            self._start()

    def close(self) -> None:
        """End the process."""
        self._ray.kill(self._actor)
