"""This module measures the CPU time of a process with its children, and the energy of the CPU packages."""

import contextlib
import os
from pathlib import Path

import psutil

POWERCAP = Path("/sys/class/powercap")


def cpu_seconds() -> float:
    """Return the CPU time of this process and of all processes that it has started, in seconds."""
    total = sum(os.times()[:4])
    for child in psutil.Process().children(recursive=True):
        with contextlib.suppress(psutil.Error):
            times = child.cpu_times()
            total += times.user + times.system + times.children_user + times.children_system
    return total


class PackageEnergy:
    """Measures the energy of all CPU packages by RAPL, including the energy of other programs. A counter in microjoules
    wraps around after at least a quarter of an hour, so `joules` must be called more often."""

    def __init__(self, folder: Path = POWERCAP):
        self._counters = [p for p in sorted(folder.glob("intel-rapl:*")) if p.name.count(":") == 1]
        self._joules = 0.0
        self._last = self._read()

    def joules(self) -> float | None:
        """Return the energy in joules since the counter was created, or None if RAPL is missing or may not be read."""
        now = self._read()
        if not now or len(now) != len(self._last):
            return None
        for (before, _), (after, span) in zip(self._last, now, strict=True):
            self._joules += (after - before) % (span + 1) / 1e6
        self._last = now
        return self._joules

    def _read(self) -> list[tuple[int, int]]:
        """Return the value and the largest value of each RAPL counter in microjoules, or an empty list if RAPL is
        missing or may not be read."""
        try:
            return [(_number(p / "energy_uj"), _number(p / "max_energy_range_uj")) for p in self._counters]
        except (OSError, ValueError):
            return []


def _number(file: Path) -> int:
    return int(file.read_text())
