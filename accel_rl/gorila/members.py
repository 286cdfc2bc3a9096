"""The members of a cluster run, which the driver starts and replaces."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from accel_rl.gorila.board import MemberCount
from accel_rl.gorila.deaths import MOST, pause_after
from accel_rl.gorila.member import Member
from accel_rl.gorila.named_actor import start_named
from accel_rl.gorila.setup import Place, Role, Setup
from accel_rl.system.errors import ConfigError, RunError

IDLE_S = 60.0  # without any work of a member, beside MOST failed starts of each
PLACING_S = 30.0  # members that have a place begin, at the latest


@dataclass(slots=True)
class Seat:
    """One member, and its present process."""

    index: int
    role: Role
    life: int
    actor: Any = None
    placing: Any = None  # the question where the process runs; None once it is answered
    place: Place | None = None
    slot: int = 0
    running: Any = None  # the call that runs the member
    done_at_start: int = 0  # env steps and updates of this member when its process was started
    failed_starts: int = 0  # processes in a row that did nothing
    starts_at: float | None = None  # time.monotonic() of its next start; None: it has a process
    ended: bool = False

    @property
    def name(self) -> str:
        return f"{self.role} {self.index}"


def _done(count: MemberCount) -> int:
    return count.work.env_steps + count.work.updates


class Members:
    """Starts all members, gives each a share of its machine's cores, and replaces those whose process dies."""

    def __init__(
        self,
        ray: Any,
        setup: Setup,
        roles: Sequence[Role],
        counts: Sequence[MemberCount],
        resources: dict[str, float],
        event: Callable[[str], None],
    ):
        """counts: what each member has done before. resources: of Ray, for each member. event: notes an event."""
        self._ray, self._setup, self._resources, self._event = ray, setup, resources, event
        self.seats = [Seat(i, role, counts[i].life + 1) for i, role in enumerate(roles)]
        self.replaced = 0
        self._failed_starts, self._done = 0, 0  # of all members, since this much was done
        self._done_at = time.monotonic()  # when it had grown last
        self._slots: dict[str, int] = {}  # number of shares that a machine's cores are divided into
        for seat in self.seats:
            self._start(seat)
        self._placing_until = time.monotonic() + PLACING_S

    def _start(self, seat: Seat) -> None:
        seat.actor = start_named(
            self._ray, Member, f"{self._setup.name}/{seat.role}-{seat.index}-{seat.life}",
            self._setup, seat.index, seat.life, seat.role, scheduling_strategy="SPREAD", **self._resources,
        )  # fmt: skip
        seat.placing, seat.place, seat.running, seat.starts_at = seat.actor.place.remote(), None, None, None

    @property
    def running(self) -> int:
        """Number of members whose process runs."""
        return sum(seat.running is not None and not seat.ended for seat in self.seats)

    @property
    def ended(self) -> bool:
        """Whether all members have ended by themselves."""
        return all(seat.ended for seat in self.seats)

    def look(self, counts: Sequence[MemberCount], ending: bool) -> None:
        """Let those begin that have a place, and replace those that have died. RunError, or the error of a member.

        counts: what each member has done. ending: the run ends, and no member is replaced.
        """
        for seat in self.seats:
            if ending and seat.running is None:
                seat.ended, seat.starts_at = True, None
                self._ray.kill(seat.actor)
            if seat.starts_at is not None and time.monotonic() >= seat.starts_at:
                self._start(seat)
            if not seat.ended and seat.starts_at is None:
                self._look_at(seat, counts, ending)
        waiting = [seat for seat in self.seats if seat.running is None and not seat.ended]
        placed = [seat for seat in waiting if seat.place is not None]
        if placed and (len(placed) == len(waiting) or time.monotonic() > self._placing_until):
            self._begin(placed)

    def _look_at(self, seat: Seat, counts: Sequence[MemberCount], ending: bool) -> None:
        call = seat.placing if seat.placing is not None else seat.running
        if call is None or not self._ray.wait([call], timeout=0)[0]:
            return
        errors = self._ray.exceptions
        try:
            answer = self._ray.get(call)
        except errors.RayTaskError as e:
            cause = getattr(e, "cause", None)
            if isinstance(cause, ConfigError | RunError):
                raise type(cause)(f"{seat.name}: {cause}") from e
            raise RunError(f"{seat.name}: {' '.join(str(e).split())[-500:]}") from e
        except errors.RayActorError as e:
            self._lost(seat, counts, ending, e)
            return
        if seat.placing is not None:
            seat.placing, seat.place = None, answer
        else:
            seat.ended = True

    def _begin(self, placed: list[Seat]) -> None:
        for machine in {seat.place.machine for seat in placed if seat.place}:
            here = [seat for seat in self.seats if seat.place and seat.place.machine == machine and not seat.ended]
            self._slots[machine] = max(self._slots.get(machine, 0), len(here))
            taken = {seat.slot for seat in here if seat.running is not None}
            free = (s for s in range(self._slots[machine] + len(here)) if s not in taken)
            for seat in here:
                if seat.running is None:
                    seat.slot = next(free)
                    seat.running = seat.actor.run.remote(seat.slot, max(self._slots[machine], seat.slot + 1))

    def _lost(self, seat: Seat, counts: Sequence[MemberCount], ending: bool, error: Exception) -> None:
        why = "its node is gone" if self._node_is_gone(seat) else "its process died"
        if ending:
            seat.ended = True
            self._event(f"{seat.name}: {why} while the run ended")
            return
        done = sum(_done(count) for count in counts)
        self._failed_starts += 1
        if done > self._done:
            self._failed_starts, self._done, self._done_at = 1, done, time.monotonic()
        idle = time.monotonic() - self._done_at > IDLE_S
        if idle and self._failed_starts > MOST * len(self.seats):
            raise RunError(
                f"{seat.name}: {why}; {self._failed_starts} processes in a row died before any of them did anything: "
                f"{str(error).splitlines()[0]}"
            )
        its = _done(counts[seat.index])
        seat.failed_starts = 0 if its > seat.done_at_start else seat.failed_starts + 1
        seat.life, seat.done_at_start, seat.running, seat.place = seat.life + 1, its, None, None
        seat.starts_at = time.monotonic() + pause_after(seat.failed_starts)
        self.replaced += 1
        self._event(f"{seat.name}: {why}; the others go on, another process takes its place")

    def _node_is_gone(self, seat: Seat) -> bool:
        alive = {node["NodeID"] for node in self._ray.nodes() if node["Alive"]}
        return seat.place is not None and seat.place.node not in alive

    def close(self) -> None:
        """End the processes."""
        for seat in self.seats:
            self._ray.kill(seat.actor)
