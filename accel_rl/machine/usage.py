"""Measures the CPU time of this process and its child processes, the time since another process stalled, and the energy
of the CPU packages."""

import contextlib
import os
import time
from collections.abc import Callable
from pathlib import Path

import psutil

POWERCAP = Path("/sys/class/powercap")
LOOK_S = 1.0  # `Stall.look` should be called about every LOOK_S seconds.


def cpu_seconds() -> float:
    """CPU time of this process and of all processes that it has started."""
    total = sum(os.times()[:4])
    for child in psutil.Process().children(recursive=True):
        with contextlib.suppress(psutil.Error):
            times = child.cpu_times()
            total += times.user + times.system + times.children_user + times.children_system
    return total


class Stall:
    """Measures the time since another process last changed a counter, such as its CPU time. A process that polls or
    waits with a timeout uses a little CPU time; a process that is stopped, or blocked for ever, uses none."""

    def __init__(self, counter: Callable[[], int]):
        self._counter = counter
        self._value = -1
        self._looked_at = time.monotonic()
        self.seconds = 0.0

    def look(self) -> float:
        """Read the counter. Return the seconds since the counter's last change, without the time during which this
        process itself was stopped."""
        now, value = time.monotonic(), self._counter()
        waited = min(now - self._looked_at, 2 * LOOK_S)
        self.seconds = self.seconds + waited if value == self._value else 0.0
        self._looked_at, self._value = now, value
        return self.seconds


def cpu_ns(pid: int) -> int:
    """CPU time of all threads of a process. If a thread is ready to run, or if the kernel does not report nanoseconds,
    return the current time, so that the process is never considered stalled."""
    total = 0
    try:
        for thread in os.listdir(f"/proc/{pid}/task"):
            with contextlib.suppress(FileNotFoundError, ProcessLookupError):
                folder = Path(f"/proc/{pid}/task/{thread}")
                total += int((folder / "schedstat").read_text().split()[0])
                if (folder / "stat").read_text().rpartition(")")[2].split()[0] == "R":
                    return time.monotonic_ns()
    except (OSError, ValueError):
        return time.monotonic_ns()
    return total or time.monotonic_ns()


class PackageEnergy:
    """The energy that all CPU packages use, by RAPL, including that of other programs. RAPL's counters wrap around
    after a quarter of an hour or later, so `joules` must be called at shorter intervals."""

    def __init__(self, folder: Path = POWERCAP):
        self._counters = [p for p in sorted(folder.glob("intel-rapl:*")) if p.name.count(":") == 1]
        self._joules = 0.0
        self._last = self._read()

    def joules(self) -> float | None:
        """Energy in joules since this object was created, or None if RAPL is missing or may not be read."""
        now = self._read()
        if not now or len(now) != len(self._last):
            return None
        for (before, _), (after, span) in zip(self._last, now, strict=True):
            self._joules += (after - before) % (span + 1) / 1e6
        self._last = now
        return self._joules

    def _read(self) -> list[tuple[int, int]]:
        """(value, maximum value) of each RAPL counter in microjoules, or an empty list if RAPL is missing or may not be
        read."""
        try:
            return [(_number(p / "energy_uj"), _number(p / "max_energy_range_uj")) for p in self._counters]
        except (OSError, ValueError):
            return []


def _number(file: Path) -> int:
    return int(file.read_text())
