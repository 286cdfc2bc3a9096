"""The driver's side of the board: starts it, reads it, and replaces it if it is lost."""

from collections.abc import Callable
from typing import Any

from accel_rl.gorila.board import Board, MemberCount, Work
from accel_rl.gorila.named_actor import start_named


class BoardKeeper:
    """The board as a Ray actor, and what was read from it last."""

    def __init__(self, ray: Any, name: str, members: list[MemberCount], window: int, event: Callable[[str], None]):
        """members: what each has done before. event: notes an unusual event."""
        self._ray, self._name, self._window, self._event = ray, name, window, event
        self.members = members
        self.replaced = 0  # number of times
        self._stop = False
        self._actor = self._start()

    def _start(self) -> Any:
        return start_named(self._ray, Board, self._name, self.members, self._window, self._stop)

    def read(self, stop: bool, timeout_s: float) -> None:
        """Read the board, and tell it whether the run ends. A board that is lost, or silent for timeout_s, is replaced;
        members then report again."""
        self._stop = stop
        errors = self._ray.exceptions
        try:
            self.members = self._ray.get(self._actor.read.remote(stop), timeout=timeout_s)
        except (errors.RayActorError, errors.GetTimeoutError):
            self._ray.kill(self._actor)
            self._actor = self._start()
            self.replaced += 1
            self._event("the board of the run was lost: replaced")

    @property
    def total(self) -> Work:
        """What all members have done."""
        return sum((m.work for m in self.members), Work())

    @property
    def recent(self) -> list[tuple[float, int]]:
        """(score, length) of the recent episodes of all members."""
        return [e for m in self.members for e in m.recent]

    def close(self) -> None:
        """End the process."""
        self._ray.kill(self._actor)
