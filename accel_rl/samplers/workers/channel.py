"""The action server and its worker processes exchange requests and answers through counters in shared memory.

One action server serves several workers, each of which steps environments of two groups. While the server computes the
actions of one group, the workers step the other group:

    worker 0   | step A | step B | step A | step B | ...
    worker 1   | step A | step B | step A | step B | ...
    server              |act A |  |act B |  |act A | ...
                        ^ every worker has answered A    ^ A's actions are released

A request to a worker is a counter in shared memory that only the server increases. A worker's answer is a counter that
only the worker increases. A group is ready when its request and answer counters are equal. If the server requests
several successive steps together, it increases the request counter by the number of steps, and no process waits between
the steps. The server may also request further steps before a group has finished earlier steps (see the arguments
`ahead`). An eventfd wakes a sleeping process. No wake-up is lost, because the eventfd is set after every change of a
counter, and cleared before the counters are read. Infrequent messages (set-up, states, errors) are sent over one socket
per worker (control.py). If the server or a worker process dies, the process at the other end of the socket reads an end
of file.
"""

import os
import select
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress

import numpy as np

from accel_rl.data.shared_memory import Layout
from accel_rl.machine.memory_order import IS_ORDERED, OrderedWords, fence_of_machine
from accel_rl.processes.process import SLICE_S, Patience, patience_s
from accel_rl.samplers.workers.control import Control


class EventFd:
    """An event that wakes a process which polls it: an eventfd, or a pipe on systems without eventfd."""

    def __init__(self, fds: tuple[int, int] | None = None):
        """`fds` are the file descriptors (to read, to write) of an event that another process has created. If `fds` is
        None, a new event is created."""
        if fds is None:
            if hasattr(os, "eventfd"):
                fd = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
                fds = (fd, fd)
            else:
                fds = os.pipe()
                os.set_blocking(fds[0], False)
                os.set_blocking(fds[1], False)
        self.read_fd, self.write_fd = fds

    @property
    def fds(self) -> tuple[int, int]:
        return self.read_fd, self.write_fd

    def set(self) -> None:
        with suppress(BlockingIOError):  # A full pipe means that the event is already set.
            os.write(self.write_fd, b"\x01\0\0\0\0\0\0\0")

    def clear(self) -> None:
        with suppress(BlockingIOError):
            os.read(self.read_fd, 4096)

    def close(self) -> None:
        for fd in set(self.fds):
            os.close(fd)


_LINE = 8  # int64 values per cache line; no two processes write to the same line


class WorkersSilent(Exception):
    """`workers` have not answered a request within the timeout."""

    def __init__(self, workers: list[int], timeout_s: float):
        super().__init__(f"no answer from worker {', '.join(map(str, workers))} within {timeout_s:g} s")
        self.workers = workers


def counters_layout(workers: int, groups: int) -> Layout:
    """Return the layout of the shared counters: request, answer and step per (worker, group), and each worker's time
    spent on stepping in nanoseconds."""
    cell = (workers, groups, _LINE)
    return {
        "request": ("int64", cell),
        "answer": ("int64", cell),
        # step[0] is the index of the next step minus the number of answers.
        # When the number of answers reaches step[1], the worker wakes the server.
        "step": ("int64", cell),
        "env_ns": ("int64", (workers, _LINE)),
    }


def _cells(array: np.ndarray) -> memoryview | OrderedWords:
    # A memoryview reads and writes each item as one machine word, and is faster than NumPy.
    words = memoryview(array).cast("B").cast("q")  # type: ignore[arg-type]
    return words if IS_ORDERED else OrderedWords(words, fence_of_machine())


class WorkerSide:
    """Receives the action server's requests in a worker process."""

    def __init__(
        self, arrays: dict[str, np.ndarray], worker: int, event: EventFd, server: EventFd, control: Control, spins: int
    ):
        """`spins` is the number of times that the worker process reads the request counters before it sleeps."""
        self._request, self._answer, self._step = (_cells(arrays[k][worker]) for k in ("request", "answer", "step"))
        self.groups = arrays["request"].shape[1]
        self._event = event
        self._server = server
        self._spins = spins
        self._last = -1
        self._poll = select.poll()
        self._poll.register(event.read_fd, select.POLLIN)
        self._poll.register(control.fileno(), select.POLLIN)

    def _due(self) -> int | None:
        """Return a group with an unanswered request, or None. The search starts after the group that was stepped last,
        so that no group waits forever."""
        for i in range(1, self.groups + 1):
            g = (self._last + i) % self.groups
            if self._request[g * _LINE] != self._answer[g * _LINE]:
                return g
        return None

    def next(self) -> tuple[int, int] | None:
        """Wait for a request, and return (group, step index), or None if a control message has arrived."""
        for _ in range(self._spins):
            g = self._due()
            if g is not None:
                break
            os.sched_yield()
        else:
            while (g := self._due()) is None:
                for fd, _ in self._poll.poll():
                    if fd != self._event.read_fd:
                        return None
                self._event.clear()
        self._last = g
        return g, self._step[g * _LINE] + self._answer[g * _LINE]

    def answer(self, group: int) -> None:
        """Increase the answer counter. Wake the action server if it waits for this answer."""
        word = group * _LINE
        self._answer[word] += 1
        if self._answer[word] in (self._request[word], self._step[word + 1]):
            self._server.set()


class ServerSide:
    """Sends the action server's requests to the worker processes, and waits for their answers."""

    def __init__(self, arrays: dict[str, np.ndarray], event: EventFd, spins: int, group_events: Sequence[EventFd] = ()):
        """With dedicated worker processes, `group_events` contains one event for each group of environments."""
        self.workers, self.groups = arrays["request"].shape[:2]
        self._request = [_cells(arrays["request"][w]) for w in range(self.workers)]
        self._answer = [_cells(arrays["answer"][w]) for w in range(self.workers)]
        self._step = [_cells(arrays["step"][w]) for w in range(self.workers)]
        self._cells = list(zip(self._answer, self._request, strict=True))
        self._spins, self._event = spins, event
        self._events: dict[int, EventFd] = {}  # the event that wakes each worker
        self._controls: dict[int, int] = {}  # {file descriptor of a worker's socket: index of the worker}
        # {worker: (its number of answers, seconds for which the server has waited since the last of them)}
        self._quiet: dict[int, tuple[int, float]] = {}
        self._all = {e.read_fd: e for e in (event, *group_events)}
        # `_poll` polls all file descriptors, and `_watching` polls all except the events of the groups.
        self._poll, self._watching = _poll(self._all), _poll([event.read_fd])
        self._alone, self._group_events = [_poll([e.read_fd]) for e in group_events], group_events

    def attach(self, worker: int, event: EventFd, control: Control) -> None:
        """Include a worker process, which has no unanswered requests."""
        for g in range(self.groups):
            # The request counter is reset first.
            # If only the answer counter were 0, an inference thread that reads both counters would wait forever.
            self._request[worker][g * _LINE] = 0
            self._answer[worker][g * _LINE] = 0
        self._events[worker] = event
        self._controls[control.fileno()] = worker
        for poll in (self._poll, self._watching):
            poll.register(control.fileno(), select.POLLIN)

    def detach(self, worker: int, control: Control) -> None:
        """Exclude a lost worker process, so that the server does not wait for its answers."""
        for g in range(self.groups):
            self._answer[worker][g * _LINE] = self._request[worker][g * _LINE]
        self._events.pop(worker, None)
        self._quiet.pop(worker, None)
        self._controls.pop(control.fileno(), None)
        for poll in (self._poll, self._watching):
            poll.unregister(control.fileno())
        self.wake_all()

    def wake(self) -> None:
        """Wake the thread that waits in `watch`."""
        self._event.set()

    def wake_all(self) -> None:
        """Wake every waiting thread, so that it checks whether it must stop."""
        for event in self._all.values():
            event.set()

    def release(self, worker: int, group: int, step_index: int, n: int = 1) -> None:
        """Request n steps from `step_index` on. If earlier requests are unanswered, `step_index` must be the index
        after the last requested step."""
        word = group * _LINE
        steps = self._step[worker]
        request = self._request[worker]
        # The number of answers at which the worker wakes the server is written before the request becomes visible.
        steps[word + 1] = request[word]
        if self._answer[worker][word] == request[word]:
            steps[word] = step_index - request[word]  # The worker adds its number of answers.
        request[word] += n
        self._events[worker].set()

    def owing(self, groups: Sequence[int], ahead: int = 0) -> list[int]:
        """Return the workers that have not answered all requests for the groups, not counting the last `ahead` steps of
        each group."""
        cells = [g * _LINE for g in groups]
        return [
            w for w, (answer, request) in enumerate(self._cells) if any(answer[c] < request[c] - ahead for c in cells)
        ]

    def ready(self, groups: Sequence[int], ahead: int = 0) -> int | None:
        """Return the first group whose requested steps, except the last `ahead`, are done, or None."""
        for g in groups:
            word = g * _LINE
            if all(answer[word] >= request[word] - ahead for answer, request in self._cells):
                return g
        return None

    def wait(self, groups: Sequence[int], timeout_s: float, ahead: int = 0) -> list[int]:
        """Wait until one of the groups is ready, and return []. If workers send a message or die during the wait,
        return their indices. Raises WorkersSilent if a worker does not answer a request within timeout_s (the detection
        takes up to a quarter of timeout_s longer)."""
        for _ in range(self._spins):
            if self.ready(groups, ahead) is not None:
                return []
            os.sched_yield()
        while self.ready(groups, ahead) is None:
            if talking := self._wait_once(self._poll, groups, timeout_s, ahead):
                return talking
        return []

    def wait_alone(self, group: int, stopped: Callable[[], bool]) -> bool:
        """Wait until a group with dedicated workers is ready. Return False if `stopped` becomes true during the wait.
        Another thread must call `watch` during this wait, to detect worker processes that die or hang."""
        while self.ready((group,)) is None:
            if stopped():
                return False
            self._alone[group].poll()
            self._group_events[group].clear()
        return True

    def watch(self, timeout_s: float) -> list[int]:
        """While other threads are in `wait_alone`, wait for at most a second, and return the workers that have sent a
        message or died. Raises WorkersSilent as `wait` does."""
        return self._wait_once(self._watching, range(self.groups), timeout_s)

    def _wait_once(self, poll: "select.poll", groups: Sequence[int], timeout_s: float, ahead: int = 0) -> list[int]:
        began = time.monotonic()
        if talking := self._listen(min(timeout_s / 4, SLICE_S), poll):
            return talking
        timeout_s = patience_s(timeout_s)
        if silent := self._silent(self.owing(groups, ahead), timeout_s, time.monotonic() - began):
            raise WorkersSilent(silent, timeout_s)
        return []

    def _silent(self, owing: list[int], timeout_s: float, waited_s: float) -> list[int]:
        """Add `waited_s` to the waiting time of each worker in `owing`, whose answers are missing. Return the workers
        whose waiting time has reached timeout_s."""
        for w in owing:
            answers = sum(self._answer[w][g * _LINE] for g in range(self.groups))
            before, quiet_s = self._quiet.get(w, (-1, 0.0))
            # If this process was suspended, the suspension does not count as waiting time.
            self._quiet[w] = answers, quiet_s + min(waited_s, SLICE_S) if answers == before else 0.0
        return [w for w in owing if self._quiet[w][1] >= timeout_s]

    def check(self) -> list[int]:
        return self._listen(0.0, self._poll)

    def wait_control(self, timeout_s: float) -> list[int]:
        """Block until a worker sends a message or dies, or return [] after timeout_s."""
        patience = Patience(timeout_s)
        while not patience.over:
            if talking := patience.spend(lambda seconds: self._listen(seconds, self._poll)):
                return talking
        return []

    def _listen(self, timeout_s: float, poll: "select.poll") -> list[int]:
        talking = []
        for fd, _ in poll.poll(timeout_s * 1000):
            if fd in self._all:
                self._all[fd].clear()
            else:
                talking.append(self._controls[fd])
        return talking


def _poll(fds: Iterable[int]) -> "select.poll":
    poll = select.poll()
    for fd in fds:
        poll.register(fd, select.POLLIN)
    return poll
