"""The board of a cluster run adds up the counts (env steps, updates, bytes) that the cluster members report.

    member --BoardLine--> Board (a Ray actor) <--BoardKeeper-- driver

The driver reads the board's counts to decide when the run ends.
"""

import logging
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from accel_rl.gorila.ray_session import NAMESPACE, START_S, beside, start_named
from accel_rl.ranks.shared_counters import share
from accel_rl.samplers.episodes import Recent
from accel_rl.text.errors import RunError

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Work:
    """Counts of one process of a cluster member since the process started."""

    env_steps: int = 0
    episodes: int = 0
    updates: int = 0
    """The learner's updates, including updates that the parameter server discarded."""
    skipped: int = 0
    """Updates with a non-finite loss or gradient"""
    outliers: int = 0
    """Gradients that the learner discarded because the loss of the batch was an outlier (`OutlierGuard`)"""
    lost: int = 0
    """Gradient pushes that a shard of the parameter server did not answer"""
    moved: int = 0
    """Bytes of pushed gradients and pulled parameters"""

    def __add__(self, other: "Work") -> "Work":
        return Work(*(getattr(self, name) + getattr(other, name) for name in self.__slots__))

    def __sub__(self, other: "Work") -> "Work":
        return Work(*(getattr(self, name) - getattr(other, name) for name in self.__slots__))


@dataclass(frozen=True, slots=True)
class Answer:
    """The board's reply to a cluster member that has reported its counts."""

    env_steps: int
    """Env steps of all members in the whole run"""
    stop: bool
    """Whether the member must end, because the run ends"""
    silent_s: float
    """Seconds since the driver last called the board"""


@dataclass(slots=True)
class MemberCount:
    """The counts of one cluster member, over all of its successive processes."""

    life: int = -1  # The number of the member's current process, counted from 0
    before: Work = field(default_factory=Work)  # The counts of the member's earlier processes
    now: Work = field(default_factory=Work)  # The counts of the member's current process
    recent: list[Recent] = field(default_factory=list)

    @property
    def work(self) -> Work:
        return self.before + self.now

    def to_dict(self) -> dict[str, Any]:
        return {"life": self.life, "work": asdict(self.work), "recent": [list(e) for e in self.recent]}

    @classmethod
    def from_dict(cls, d: dict[str, Any]) -> "MemberCount":
        return cls(d["life"], Work(**d["work"]), Work(), [(float(s), int(n), int(game)) for s, n, game in d["recent"]])


class Board:
    """A Ray actor that adds up the counts of all cluster members for the driver. Each report contains the total counts
    of a member's process, so a lost or repeated report does no harm."""

    def __init__(self, members: Sequence[MemberCount], window: int, stop: bool = False):
        """`members` lists each member's counts so far. The online score is the mean over the last `window` episodes of
        all members. If `stop` is true, the board requests every member to end."""
        self._members = list(members)
        self._each = share(window, max(1, len(self._members)))
        self._stop, self._heard = stop, time.monotonic()

    def report(self, member: int, life: int, work: Work, recent: list[Recent]) -> Answer:
        """Record the counts `work` that process number `life` of a member reports. `recent` lists the recent episodes
        of the member's process."""
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
        """The counts of each cluster member. The driver calls `read` regularly; the members end if the driver no longer
        calls `read`. If `stop` is true, the board requests every member to end."""
        self._heard, self._stop = time.monotonic(), stop or self._stop
        return self._members


class BoardKeeper:
    """Connects the driver to the board, and stores the counts that the driver last read."""

    def __init__(self, ray: Any, name: str, members: list[MemberCount], window: int):
        """`members` lists the counts of each cluster member at the driver's start."""
        self._ray = ray
        self._name = name
        self._window = window
        self.members = members
        self._stop = False
        self._actor = self._start()

    def _start(self) -> Any:
        self._starts_until = time.monotonic() + START_S
        # The board runs on the driver's machine, so that the board survives the loss of other machines.
        place = beside(self._ray)
        return start_named(
            self._ray, Board, self._name, self.members, self._window, self._stop, scheduling_strategy=place
        )

    def read(self, stop: bool, timeout_s: float) -> None:
        """Read the board's counts, and send `stop` to the members. A board that does not answer within timeout_s is
        replaced, unless its process is still starting."""
        self._stop = stop
        errors = self._ray.exceptions
        try:
            self.members = self._ray.get(self._actor.read.remote(stop), timeout=timeout_s)
            self._starts_until = 0.0
        except (errors.RayActorError, errors.GetTimeoutError) as e:
            if isinstance(e, errors.GetTimeoutError) and time.monotonic() < self._starts_until:
                return
            self._ray.kill(self._actor)
            self._actor = self._start()
            logger.warning("the board of the run was lost: replaced")

    @property
    def total(self) -> Work:
        return sum((m.work for m in self.members), Work())

    @property
    def recent(self) -> list[Recent]:
        return [e for m in self.members for e in m.recent]

    def close(self) -> None:
        """End the board's process."""
        self._ray.kill(self._actor)


INTERVAL_S = 0.2  # A cluster member reports every 0.2 seconds.
LOST_S = 30.0  # A member considers the driver lost if the driver has not called the board for `LOST_S` seconds.
LOOK_S = 0.1


class DriverLost(RunError):
    """The driver has not called the board for LOST_S seconds."""


class BoardLine:
    """Sends the counts of one member's process to the board, and reconnects if the board is replaced."""

    def __init__(self, ray: Any, name: str, member: int, life: int):
        self._ray = ray
        self._name = name
        self._member = member
        self._life = life
        self._board: Any = None
        self._asked: Any = None  # The pending call of the board
        self._sent_at, self._heard_at = 0.0, time.monotonic()
        self.answer = Answer(0, False, 0.0)  # The board's last answer
        self.answered = Work()  # The counts in the last report that the board has answered
        self._reported = Work()

    @property
    def lost(self) -> bool:
        """Whether the driver has not called the board for LOST_S seconds."""
        return time.monotonic() - self._heard_at > LOST_S

    @property
    def ended(self) -> bool:
        """Whether the member ends because the run ends, and not because the driver is lost."""
        return self.answer.stop or not self.lost

    def tell(self, work: Work, recent: list[Recent]) -> None:
        """Read the board's answer if it has arrived, and report the member's counts if a report is due."""
        now = time.monotonic()
        if self._asked is not None:
            ready, _ = self._ray.wait([self._asked], timeout=0)
            if ready:
                self._take()
        if self._asked is None and now - self._sent_at >= INTERVAL_S:
            self._send(work, recent)

    def ask(self, work: Work, recent: list[Recent]) -> Answer:
        """Report the member's counts to the board, and wait for the answer. Raises DriverLost."""
        self._asked = None  # The pending report may be dropped, because the next report contains all counts.
        while True:
            self._send(work, recent)
            if self._asked is not None and self._take():
                return self.answer
            if self.lost:
                raise DriverLost(f"the driver has not been heard of for {LOST_S:g} s")
            time.sleep(LOOK_S)

    def _send(self, work: Work, recent: list[Recent]) -> None:
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
