"""The board of a cluster run adds up the members' reports.

    member --BoardLine--> Board (a Ray actor) <--BoardKeeper-- driver

The driver reads the board to decide when the run ends.
"""

import logging
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from accel_rl.gorila.ray_session import NAMESPACE, start_named
from accel_rl.runners.ranks.shared_counters import share
from accel_rl.system.errors import RunError

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Work:
    """`Work` has the env steps, updates and other counts of one process of a member, since the process began."""

    env_steps: int = 0
    episodes: int = 0
    updates: int = 0
    """`updates` counts the updates that the learner computed, including updates that the shards discarded."""
    skipped: int = 0
    """`skipped` counts updates with a non-finite loss or gradient."""
    outliers: int = 0
    """`outliers` counts the gradients that the learner discarded because of the loss of their batch."""
    lost: int = 0
    """`lost` counts pushes that no shard answered."""
    moved: int = 0
    """`moved` counts the bytes of pushed gradients and pulled parameters."""
    ranks_replaced: int = 0
    """`ranks_replaced` counts killed ranks of a bundle that were replaced."""
    outliers_won: int = 0
    """`outliers_won` counts gradients of batches with a positive reward that were discarded as outliers."""
    batches_won: int = 0
    """`batches_won` counts batches with a positive reward, if learners discard outliers."""

    def __add__(self, other: "Work") -> "Work":
        return Work(*(getattr(self, name) + getattr(other, name) for name in self.__slots__))

    def __sub__(self, other: "Work") -> "Work":
        return Work(*(getattr(self, name) - getattr(other, name) for name in self.__slots__))


@dataclass(frozen=True, slots=True)
class Answer:
    """An `Answer` is the board's answer to a member's report."""

    env_steps: int
    """`env_steps` is the total number of env steps of the run."""
    stop: bool
    """`stop` is true if the run ends now."""
    silent_s: float
    """`silent_s` is the time in seconds since the driver's last request to the board."""


@dataclass(slots=True)
class MemberCount:
    """A `MemberCount` has the total counts of all processes of a member."""

    life: int = -1  # The member's newest process that has reported has the number `life`.
    before: Work = field(default_factory=Work)  # `before` has the counts of the member's earlier processes.
    now: Work = field(default_factory=Work)  # `now` has the counts of the member's current process.
    recent: list[tuple[float, int]] = field(default_factory=list)

    @property
    def work(self) -> Work:
        return self.before + self.now

    def to_dict(self) -> dict[str, Any]:
        return {"life": self.life, "work": asdict(self.work), "recent": [[s, n] for s, n in self.recent]}

    @classmethod
    def from_dict(cls, d: dict[str, Any]) -> "MemberCount":
        return cls(d["life"], Work(**d["work"]), Work(), [(float(s), int(n)) for s, n in d["recent"]])


class Board:
    """Adds up the reports of all members for the driver. A report contains all counts of a process since its start, so
    a lost or repeated report does no harm."""

    def __init__(self, members: Sequence[MemberCount], window: int, stop: bool = False):
        """`members` has the counts of each cluster member so far. `window` is the number of recent episodes in the
        online score. `stop` is true if the run must end."""
        self._members = list(members)
        self._each = share(window, max(1, len(self._members)))
        self._stop, self._heard = stop, time.monotonic()

    def report(self, member: int, life: int, work: Work, recent: list[tuple[float, int]]) -> Answer:
        """Record the counts that a member's process number `life` reports. `recent` has (score, length) of the
        process's last episodes."""
        m = self._members[member]
        if life > m.life:
            m.before = m.work
            m.now = Work()
            m.life = life
        if life == m.life:
            m.now = work
            m.recent = recent[-self._each :] or m.recent
        env_steps = sum(m.work.env_steps for m in self._members)
        return Answer(env_steps, self._stop, time.monotonic() - self._heard)

    def read(self, stop: bool) -> list[MemberCount]:
        """Return the counts of each cluster member. A call of `read` is also the driver's heartbeat. `stop` tells the
        members to end."""
        self._heard, self._stop = time.monotonic(), stop or self._stop
        return self._members


class BoardKeeper:
    """`BoardKeeper` is the driver's handle of the board, with the counts that the driver last read."""

    def __init__(self, ray: Any, name: str, members: list[MemberCount], window: int):
        """`members` has each member's counts from earlier driver processes."""
        self._ray = ray
        self._name = name
        self._window = window
        self.members = members
        self.replaced = 0  # Counts the replacements of the board's process.
        self._stop = False
        self._actor = self._start()

    def _start(self) -> Any:
        return start_named(self._ray, Board, self._name, self.members, self._window, self._stop)

    def read(self, stop: bool, timeout_s: float) -> None:
        """Read the board's counts, and tell the board whether the run must end. A board that is lost, or does not
        answer within timeout_s, is replaced, and the members report their counts again."""
        self._stop = stop
        errors = self._ray.exceptions
        try:
            self.members = self._ray.get(self._actor.read.remote(stop), timeout=timeout_s)
        except (errors.RayActorError, errors.GetTimeoutError):
            self._ray.kill(self._actor)
            self._actor = self._start()
            self.replaced += 1
            logger.warning("the board of the run was lost: replaced")

    @property
    def total(self) -> Work:
        """Return the total counts of all cluster members."""
        return sum((m.work for m in self.members), Work())

    @property
    def recent(self) -> list[tuple[float, int]]:
        """Return (score, length) of the recent episodes of all members."""
        return [e for m in self.members for e in m.recent]

    def close(self) -> None:
        """End the board's process."""
        self._ray.kill(self._actor)


INTERVAL_S = 0.2  # A cluster member reports every 0.2 seconds.
LOST_S = 30.0  # A member considers the driver lost after `LOST_S` seconds without an answer.
LOOK_S = 0.1


class BoardLine:
    """Sends the counts of one process of a member to the board. If the board is lost, the member's process searches for
    a new board repeatedly."""

    def __init__(self, ray: Any, name: str, member: int, life: int):
        self._ray = ray
        self._name = name
        self._member = member
        self._life = life
        self._board: Any = None
        self._asked: Any = None  # The board has not answered the report `_asked` yet.
        self._sent_at, self._heard_at = 0.0, time.monotonic()
        self.answer = Answer(0, False, 0.0)  # The board's last answer to the member is stored here.
        self.answered = Work()  # The board's last answer was to a report of the counts `answered`.
        self._reported = Work()

    @property
    def lost(self) -> bool:
        """Return whether the driver has been silent for LOST_S."""
        return time.monotonic() - self._heard_at > LOST_S

    def tell(self, work: Work, recent: list[tuple[float, int]]) -> None:
        """Read the board's answer to the last report if the answer has arrived, and send the next report if it is
        due."""
        now = time.monotonic()
        if self._asked is not None:
            ready, _ = self._ray.wait([self._asked], timeout=0)
            if ready:
                self._take()
        if self._asked is None and now - self._sent_at >= INTERVAL_S:
            self._send(work, recent)

    def ask(self, work: Work, recent: list[tuple[float, int]]) -> Answer:
        """Send a report to the board, and wait for the board's answer. Raises RunError if the driver has ended."""
        self._asked = None  # The next report contains all counts of the lost report.
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
