"""Every signal between the action server and its workers; nothing else owns one.

Two groups of environments on each worker, one action server. While the server infers for one group, the workers step
the other, and the quicker of the two hides behind the slower:

    worker 0   | step A | step B | step A | step B | ...
    worker 1   | step A | step B | step A | step B | ...
    server              |act A |  |act B |  |act A | ...
                        ^ every worker has posted A      ^ A's actions are released

A request is a number in shared memory that only the server raises, an answer one that only the worker raises; they are
equal when nothing is due. Several successive slots can be asked for at once: a request then is ahead by as many, and
nobody waits between them. Those that follow can be asked for before these are done (`ahead`). A bell (eventfd) wakes a
sleeper: it is rung after every change and drained before a sleeper looks again, so no wake-up is lost. Rare messages
(set-up, states, errors) go over a socket a worker, as JSON with an optional blob; its end of file is the peer's death,
whichever side dies.
"""

import os
import select
import time
from collections.abc import Callable, Iterable, Sequence

import numpy as np

from accel_rl.data.shared_memory import Layout
from accel_rl.samplers.workers.control import Control
from accel_rl.samplers.workers.event_fd import EventFd
from accel_rl.system.patience import SLICE_S, Patience

_LINE = 8  # int64 per cache line: no two processes write to one line


class Silent(Exception):
    """Workers owe an answer and have given none for as long as one is waited for."""

    def __init__(self, workers: list[int], timeout_s: float):
        super().__init__(f"no answer from worker {', '.join(map(str, workers))} within {timeout_s:g} s")
        self.workers = workers


def counters_layout(workers: int, groups: int) -> Layout:
    """Request, answer and slot numbers per (worker, group), and what each worker's time went to, in nanoseconds."""
    cell = (workers, groups, _LINE)
    return {
        "request": ("int64", cell),
        "answer": ("int64", cell),
        "slot": ("int64", cell),  # [0]: slot minus answers so far; [1]: the number of answers to ring at, too
        "env_ns": ("int64", (workers, _LINE)),
    }


def _cells(array: np.ndarray) -> memoryview:
    # A memoryview's item is read and written as one machine word, and faster than a numpy scalar.
    return memoryview(array).cast("B").cast("q")  # type: ignore[arg-type]


def _addresses(arrays: dict[str, np.ndarray], worker: int, group: int) -> tuple[int, int, int]:
    """Of request, answer and slot."""
    return tuple(arrays[k][worker, group].ctypes.data for k in ("request", "answer", "slot"))  # type: ignore[return-value]


class WorkerSide:
    """What a worker sees: the next thing asked of it, group by group."""

    def __init__(
        self, arrays: dict[str, np.ndarray], worker: int, bell: EventFd, server: EventFd, control: Control, spins: int
    ):
        self._request, self._answer, self._slot = (_cells(arrays[k][worker]) for k in ("request", "answer", "slot"))
        self.groups = arrays["request"].shape[1]
        self._bell, self._server, self.control, self._spins = bell, server, control, spins
        self._arrays, self._worker = arrays, worker
        self._last = -1
        self._poll = select.poll()
        self._poll.register(bell.read_fd, select.POLLIN)
        self._poll.register(control.fileno(), select.POLLIN)

    def _due(self) -> int | None:
        """The group that is due, the one after the last first: none waits for ever."""
        for i in range(1, self.groups + 1):
            g = (self._last + i) % self.groups
            if self._request[g * _LINE] != self._answer[g * _LINE]:
                return g
        return None

    def next(self) -> tuple[int, int] | None:
        """(group, slot) asked for; None when a control message has come."""
        for _ in range(self._spins):
            g = self._due()
            if g is not None:
                break
            os.sched_yield()
        else:
            while (g := self._due()) is None:
                for fd, _ in self._poll.poll():
                    if fd != self._bell.read_fd:
                        return None
                self._bell.drain()
        self._last = g
        return g, self._slot[g * _LINE] + self._answer[g * _LINE]

    def wire(self, group: int, env_ns: int) -> tuple[int, ...]:
        """For who goes on without Python: addresses of request, answer and slot; descriptors of the own bell, of what
        is said, and of the server's bell; the address of the time; spins."""
        bells = self._bell.read_fd, self.control.fileno(), self._server.write_fd
        return *_addresses(self._arrays, self._worker, group), *bells, env_ns, self._spins

    def post(self, group: int) -> None:
        """The slot that `next` gave for the group is done."""
        at = group * _LINE
        self._answer[at] += 1
        if self._answer[at] in (self._request[at], self._slot[at + 1]):
            self._server.ring()


class ServerSide:
    """What the action server sees: the workers that still owe an answer for a group."""

    def __init__(self, arrays: dict[str, np.ndarray], bell: EventFd, spins: int, group_bells: Sequence[EventFd] = ()):
        """group_bells: one for each group, if each has workers of its own, who ring that one."""
        self.workers, self.groups = arrays["request"].shape[:2]
        self._arrays = arrays
        self._request = [_cells(arrays["request"][w]) for w in range(self.workers)]
        self._answer = [_cells(arrays["answer"][w]) for w in range(self.workers)]
        self._slot = [_cells(arrays["slot"][w]) for w in range(self.workers)]
        self._cells = list(zip(self._answer, self._request, strict=True))
        self._spins, self._bell = spins, bell
        self._bells: dict[int, EventFd] = {}
        self._controls: dict[int, int] = {}  # file descriptor -> worker
        self._quiet: dict[int, tuple[int, float]] = {}  # worker -> its answers so far, seconds waited since the last
        self._all = {b.read_fd: b for b in (bell, *group_bells)}
        # all that can be heard; the same without the groups' bells; each group's bell
        self._poll, self._watching = _poll(self._all), _poll([bell.read_fd])
        self._alone, self._group_bells = [_poll([b.read_fd]) for b in group_bells], group_bells
        self.changes = np.zeros(1, np.int64)  # so often did other workers take part, or had somebody to look

    def attach(self, worker: int, bell: EventFd, control: Control) -> None:
        """A worker takes part from now on, with nothing due."""
        self.changes += 1
        for g in range(self.groups):
            self._answer[worker][g * _LINE] = self._request[worker][g * _LINE] = 0
        self._bells[worker] = bell
        self._controls[control.fileno()] = worker
        for poll in (self._poll, self._watching):
            poll.register(control.fileno(), select.POLLIN)

    def detach(self, worker: int, control: Control) -> None:
        """A worker is gone: nothing is expected of it any more."""
        self.changes += 1
        for g in range(self.groups):
            self._answer[worker][g * _LINE] = self._request[worker][g * _LINE]
        self._bells.pop(worker, None)
        self._quiet.pop(worker, None)
        self._controls.pop(control.fileno(), None)
        for poll in (self._poll, self._watching):
            poll.unregister(control.fileno())
        self.wake()

    def wake(self, all_: bool = True) -> None:
        """Whoever waits looks again; or only who waits for no group alone."""
        for bell in self._all.values() if all_ else (self._bell,):
            bell.ring()

    def release(self, worker: int, group: int, slot: int, n: int = 1) -> None:
        """Ask a worker to carry out `slot` and the n - 1 after it for a group that owes nothing.

        If the group does owe, `slot` must be the one that follows what it owes: it goes on without waiting.
        """
        at, slots, request = group * _LINE, self._slot[worker], self._request[worker]
        slots[at + 1] = request[at]  # before the request: who sees this one raised rings at the last one all the same
        if self._answer[worker][at] == request[at]:
            slots[at] = slot - request[at]  # the answers so far are as many
        request[at] += n
        self._bells[worker].ring()

    def owing(self, groups: Sequence[int], ahead: int = 0) -> list[int]:
        """Workers that owe an answer for one of the groups; not counting the last `ahead` that were asked for."""
        cells = [g * _LINE for g in groups]
        return [
            w for w, (answer, request) in enumerate(self._cells) if any(answer[c] < request[c] - ahead for c in cells)
        ]

    def ready(self, groups: Sequence[int], ahead: int = 0) -> int | None:
        """The first of the groups that nobody owes an answer for, but for the last `ahead`."""
        for g in groups:
            at = g * _LINE
            if all(answer[at] >= request[at] - ahead for answer, request in self._cells):
                return g
        return None

    def wait(self, groups: Sequence[int], timeout_s: float, ahead: int = 0) -> list[int]:
        """Block until one of the groups is ready ([]), or until workers have something to say or are gone.

        Returns those workers. Raises Silent for workers that were waited for timeout_s (a quarter more at most) without
        an answer in any group, whoever else answers meanwhile.
        """
        for _ in range(self._spins):
            if self.ready(groups, ahead) is not None:
                return []
            os.sched_yield()
        while self.ready(groups, ahead) is None:
            if talking := self._wait_once(self._poll, groups, timeout_s, ahead):
                return talking
        return []

    def wait_alone(self, group: int, stopped: Callable[[], bool]) -> bool:
        """Block until a group with a bell of its own is ready; False if `stopped` comes true before. From any thread,
        one a group. Who is gone or silent is for the one that `watch`es."""
        while self.ready((group,)) is None:
            if stopped():
                return False
            self._alone[group].poll()
            self._group_bells[group].drain()
        return True

    def wire(self, worker: int, group: int) -> tuple[int, int, int, int]:
        """To a worker, for who goes on without Python: addresses of request, answer and slot, the bell's descriptor."""
        return *_addresses(self._arrays, worker, group), self._bells[worker].write_fd

    def watch(self, timeout_s: float) -> list[int]:
        """While others `wait_alone`, for a second at most: the workers that have something to say or are gone. Raises
        Silent as `wait` does."""
        return self._wait_once(self._watching, range(self.groups), timeout_s)

    def _wait_once(self, poll: "select.poll", groups: Sequence[int], timeout_s: float, ahead: int = 0) -> list[int]:
        began = time.monotonic()
        if talking := self._listen(min(timeout_s / 4, SLICE_S), poll):
            return talking
        if silent := self._silent(self.owing(groups, ahead), timeout_s, time.monotonic() - began):
            raise Silent(silent, timeout_s)
        return []

    def _silent(self, owing: list[int], timeout_s: float, waited_s: float) -> list[int]:
        """Note another wait for those workers; the ones that have given no answer for timeout_s of waiting."""
        for w in owing:
            answers = sum(self._answer[w][g * _LINE] for g in range(self.groups))
            before, quiet_s = self._quiet.get(w, (-1, 0.0))
            # as in Patience: somebody who was stopped himself did not wait
            self._quiet[w] = answers, quiet_s + min(waited_s, SLICE_S) if answers == before else 0.0
        return [w for w in owing if self._quiet[w][1] >= timeout_s]

    def check(self) -> list[int]:
        """The workers that have something to say or are gone, without waiting."""
        return self._listen(0.0, self._poll)

    def wait_control(self, timeout_s: float) -> list[int]:
        """Block until a worker has something to say or is gone; [] after timeout_s."""
        patience = Patience(timeout_s)
        while not patience.over:
            if talking := patience.spend(lambda seconds: self._listen(seconds, self._poll)):
                return talking
        return []

    def _listen(self, timeout_s: float, poll: "select.poll") -> list[int]:
        talking = []
        for fd, _ in poll.poll(timeout_s * 1000):
            if fd in self._all:
                self._all[fd].drain()
            else:
                talking.append(self._controls[fd])
        return talking


def _poll(fds: Iterable[int]) -> "select.poll":
    poll = select.poll()
    for fd in fds:
        poll.register(fd, select.POLLIN)
    return poll
