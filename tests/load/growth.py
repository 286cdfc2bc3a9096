"""Measures how memory, descriptors, threads and processes grow: slopes with confidence intervals."""

import itertools
import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field

import psutil

BLOCKS = 20
"""Consecutive samples are averaged into this number of blocks, whose errors are nearly independent."""
T_95 = 2.101
"""Quantile 0.975 of Student's t distribution with BLOCKS - 2 degrees of freedom."""
WARM_UP = 0.25
"""The first samples, this fraction of all, are ignored: caches fill, and the allocator reserves its first pages."""


@dataclass
class Usage:
    """Samples of the resources of a process tree. `x` is the amount of work done, such as the number of updates."""

    x: list[float] = field(default_factory=list)
    series: dict[str, list[float]] = field(default_factory=dict)

    def sample(self, x: float) -> None:
        """Add a sample after the amount of work `x`: private memory in KiB, descriptors, threads and processes of this
        process and its children."""
        me = psutil.Process()
        processes = [me, *me.children(recursive=True)]
        tree = [process for process in processes if process.status() != psutil.STATUS_ZOMBIE]
        values = {
            "memory, KiB": sum(map(_private_kib, tree)),
            "descriptors": sum(process.num_fds() for process in tree),
            "threads": sum(process.num_threads() for process in tree),
            "processes": len(processes),
        }
        self.x.append(x)
        for name, value in values.items():
            self.series.setdefault(name, []).append(value)


def _private_kib(process: psutil.Process) -> float:
    """Return the memory that only this process has, in KiB."""
    with open(f"/proc/{process.pid}/smaps_rollup") as file:
        return float(sum(int(line.split()[1]) for line in file if line.startswith(("Private_", "Swap:"))))


def slope(x: Sequence[float], y: Sequence[float]) -> tuple[float, float]:
    """Return the slope of y over x after the warm-up, and the half width of its 95 % confidence interval. Raises
    ValueError for fewer than BLOCKS samples after the warm-up."""
    first = int(len(x) * WARM_UP)
    if len(x) - first < BLOCKS:
        raise ValueError(f"{len(x)} samples are too few for a slope")
    bounds = [first + round(i * (len(x) - first) / BLOCKS) for i in range(BLOCKS + 1)]
    xs, ys = ([statistics.fmean(v[a:b]) for a, b in itertools.pairwise(bounds)] for v in (x, y))
    result, intercept = statistics.linear_regression(xs, ys)
    squares = sum((b - result * a - intercept) ** 2 for a, b in zip(xs, ys, strict=True))
    centre = statistics.fmean(xs)
    return result, T_95 * math.sqrt(squares / (BLOCKS - 2) / sum((a - centre) ** 2 for a in xs))
