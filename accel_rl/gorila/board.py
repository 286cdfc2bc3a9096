"""The board of a cluster run: what its members have done, and what the driver wants of them."""

import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from accel_rl.runners.ranks.shared_counters import share


@dataclass(frozen=True, slots=True)
class Work:
    """What one process of a member has done since it began."""

    env_steps: int = 0
    episodes: int = 0
    updates: int = 0
    """Updates that the learner computed; the shards may have discarded some of them."""
    skipped: int = 0
    """Updates that were not finite."""
    outliers: int = 0
    """Gradients that the learner discarded for the loss of their batch."""
    lost: int = 0
    """Pushes without an answer."""
    moved: int = 0
    """Bytes of gradients pushed and parameters pulled."""
    ranks_replaced: int = 0
    """Killed ranks of a bundle that were replaced."""
    outliers_won: int = 0
    """Discarded gradients whose batch has a reward above 0."""
    batches_won: int = 0
    """Batches with a reward above 0, where learners discard outliers."""

    def __add__(self, other: "Work") -> "Work":
        return Work(*(getattr(self, name) + getattr(other, name) for name in self.__slots__))

    def __sub__(self, other: "Work") -> "Work":
        return Work(*(getattr(self, name) - getattr(other, name) for name in self.__slots__))


@dataclass(frozen=True, slots=True)
class Answer:
    """The board's answer to a report."""

    env_steps: int
    """Env steps of the run, by all members."""
    stop: bool
    """Whether the run ends."""
    silent_s: float
    """Seconds since the driver was last heard of."""


@dataclass(slots=True)
class MemberCount:
    """What a member has done in all its processes."""

    life: int = -1  # number of its last process that has reported
    before: Work = field(default_factory=Work)  # by earlier processes
    now: Work = field(default_factory=Work)  # by this one
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
    """Adds up the reports of all members. Members report, the driver reads.

    A report holds everything that a process has done, so that one that is lost or repeated changes nothing.
    """

    def __init__(self, members: Sequence[MemberCount], window: int, stop: bool = False):
        """members: what each has done so far. window: number of recent episodes in the online score. stop: whether the
        run ends."""
        self._members = list(members)
        self._each = share(window, max(1, len(self._members)))
        self._stop, self._heard = stop, time.monotonic()

    def report(self, member: int, life: int, work: Work, recent: list[tuple[float, int]]) -> Answer:
        """Note the work of a member's process number `life`. recent: (score, length) of its last episodes."""
        m = self._members[member]
        if life > m.life:
            m.before, m.now, m.life = m.work, Work(), life
        if life == m.life:
            m.now = work
            m.recent = recent[-self._each :] or m.recent
        env_steps = sum(m.work.env_steps for m in self._members)
        return Answer(env_steps, self._stop, time.monotonic() - self._heard)

    def read(self, stop: bool) -> list[MemberCount]:
        """Return what each member has done. It is the driver's heartbeat, too. stop: whether members are to end."""
        self._heard, self._stop = time.monotonic(), stop or self._stop
        return self._members
