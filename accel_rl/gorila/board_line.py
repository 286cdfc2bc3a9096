"""A member's line to the board: reports now and then, without waiting for the answers."""

import time
from typing import Any

from accel_rl.gorila.board import Answer, Work
from accel_rl.gorila.session import NAMESPACE
from accel_rl.system.errors import RunError

INTERVAL_S = 0.2  # between two reports
LOST_S = 30.0  # a driver that has been silent for so long is gone
LOOK_S = 0.1


class BoardLine:
    """Reports the work of one process of a member. A board that is gone for a while is looked for again."""

    def __init__(self, ray: Any, name: str, member: int, life: int):
        self._ray, self._name, self._member, self._life = ray, name, member, life
        self._board: Any = None
        self._asked: Any = None  # the report that is not answered yet
        self._sent_at, self._heard_at = 0.0, time.monotonic()
        self.answer = Answer(0, False, 0.0)  # the last one
        self.answered = Work()  # the work that it includes
        self._reported = Work()

    @property
    def lost(self) -> bool:
        """Whether the driver has not been heard of for LOST_S."""
        return time.monotonic() - self._heard_at > LOST_S

    def tell(self, work: Work, recent: list[tuple[float, int]]) -> None:
        """Take the answer to the last report, if it is there, and report again, if it is time."""
        now = time.monotonic()
        if self._asked is not None:
            ready, _ = self._ray.wait([self._asked], timeout=0)
            if ready:
                self._take()
        if self._asked is None and now - self._sent_at >= INTERVAL_S:
            self._send(work, recent)

    def ask(self, work: Work, recent: list[tuple[float, int]]) -> Answer:
        """Report and wait for the answer. RunError if the driver is gone."""
        self._asked = None  # this report has all that an earlier one has
        while True:
            self._send(work, recent)
            if self._asked is not None and self._take():
                return self.answer
            if self.lost:
                raise RunError(f"the driver has not been heard of for {LOST_S:g} s")
            time.sleep(LOOK_S)

    def _send(self, work: Work, recent: list[tuple[float, int]]) -> None:
        self._sent_at = time.monotonic()
        try:
            self._board = self._board or self._ray.get_actor(self._name, namespace=NAMESPACE)
        except ValueError:
            return
        self._asked, self._reported = self._board.report.remote(self._member, self._life, work, recent), work

    def _take(self) -> bool:
        asked, self._asked = self._asked, None
        try:
            self.answer = self._ray.get(asked, timeout=LOST_S)
        except (self._ray.exceptions.RayActorError, self._ray.exceptions.GetTimeoutError):
            self._board = None
            return False
        self.answered = self._reported
        self._heard_at = time.monotonic() - self.answer.silent_s
        return True
