"""Measures the time during which this process and its children could not run: they were stopped (SIGSTOP, a suspended
machine), or other programs used all CPU time (`--idle`)."""

import contextlib
import os
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple
from weakref import ref

PERIOD_S = 0.5
LONGEST_TURN_S = 1.5
"""If the watching thread makes no measurement for more than LONGEST_TURN_S, this time is a pause, unless the processes
used CPU time."""


class Task(NamedTuple):
    """The kernel's counts for a task (/proc/PID/schedstat) at their last change."""

    ran: int
    """CPU time in nanoseconds."""
    queued: int
    """Time in nanoseconds during which the task was runnable but did not run."""
    cpu_s: float
    """CPU seconds of all watched tasks at the last change."""


class Pauses:
    """Adds up the pauses since this object was created. A thread measures every PERIOD_S seconds.

    If a measurement comes late, the delay is a pause, minus the time during which the process ran or could have run. In
    the idle scheduling class, waiting for a core is also a pause, because other programs have priority. In the
    usual scheduling class, waiting for a core is not a pause, but the cost of sharing cores. Waiting for a core is
    never a pause while the watched tasks themselves use the cores. The watched tasks are the thread that created this
    object and the main threads of the child processes.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._ended = threading.Event()
        self._task = Path(f"/proc/self/task/{threading.get_native_id()}/schedstat")
        self._tasks: dict[Path, Task] = {}
        self._process_s = self._cpu_s = self._total_s = 0.0
        self._counted_until = self._looked_at = time.monotonic()
        self._look()
        self._total_s = 0.0
        self._thread = threading.Thread(target=_watch, args=(ref(self), self._ended), name="pauses", daemon=True)
        self._thread.start()

    @property
    def seconds(self) -> float:
        self._look()
        return self._total_s

    def close(self) -> None:
        self._ended.set()
        self._thread.join()

    def _look(self) -> None:
        with self._lock:
            now, counts = time.monotonic(), dict(self._counts())
            tasks = {file: self._tasks.get(file) or Task(*count, self._cpu_s) for file, count in counts.items()}
            process_s = time.process_time()
            used_s = process_s - self._process_s
            used_s += sum(ran - tasks[file].ran for file, (ran, _) in counts.items() if file != self._task) / 1e9
            self._cpu_s += used_s
            turn, gives_way = now - self._looked_at, _gives_way()
            pauses = [0.0]
            if turn > LONGEST_TURN_S:
                queued_s = (counts[self._task][1] - tasks[self._task].queued) / 1e9 if self._task in counts else 0.0
                pauses.append(turn - PERIOD_S - used_s - (0.0 if gives_way else queued_s))
            for file, (ran, queued) in counts.items():
                task = tasks[file]
                # The kernel adds a wait to `queued` when the wait ends. The wait began after the last change of the
                # counts.
                if (ran, queued) != (task.ran, task.queued):
                    waited_s = (queued - task.queued) / 1e9 - (self._cpu_s - task.cpu_s)
                    pauses.append(waited_s if gives_way else 0.0)
                    tasks[file] = Task(ran, queued, self._cpu_s)
            # The same pause may appear in later measurements of other tasks, and is counted once.
            pause = min(max(pauses), now - self._counted_until)
            if pause > PERIOD_S / 2:
                self._total_s += pause
                self._counted_until = now
            self._tasks, self._process_s, self._looked_at = tasks, process_s, now

    def _counts(self) -> Iterator[tuple[Path, tuple[int, int]]]:
        """(CPU time, queued time) of each watched task in nanoseconds, if the kernel reports them."""
        files = [self._task]
        with contextlib.suppress(OSError):
            for thread in Path("/proc/self/task").iterdir():
                files += [Path(f"/proc/{pid}/schedstat") for pid in (thread / "children").read_text().split()]
        for file in files:
            with contextlib.suppress(OSError, ValueError):
                ran, queued, _ = map(int, file.read_text().split())
                yield file, (ran, queued)


def _watch(pauses: "ref[Pauses]", ended: threading.Event) -> None:
    """Measure every PERIOD_S seconds until the end. The thread has no reference to the `Pauses` object between
    measurements, because the object may never be closed."""
    while not ended.wait(PERIOD_S) and (watched := pauses()) is not None:
        watched._look()
        del watched


def _gives_way() -> bool:
    """Whether this process is in the idle scheduling class, which macOS does not have."""
    return hasattr(os, "SCHED_IDLE") and os.sched_getscheduler(0) == os.SCHED_IDLE
