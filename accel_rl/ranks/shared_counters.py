"""The env steps, episodes and updates of asynchronous ranks are counted in shared memory, so that ranks that stall are
detected. Each counter is written by a single rank."""

import time
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from accel_rl.data.shared_memory import Layout, SharedArrays
from accel_rl.machine.usage import LOOK_S, Stall, cpu_ns
from accel_rl.samplers.episodes import EpisodeTracker, Recent
from accel_rl.settings.resolved import Resolved

_LINE = 8  # A cache line has 8 int64 values.
_STEPS, _EPISODES, _UPDATES = range(3)
_BEGUN, _FROM, _STOP = range(3)


def share(window: int, ranks: int) -> int:
    """Number of recent episodes of each rank over which the online score averages, about `window` for all ranks
    together."""
    return -(-window // ranks)


class Totals(NamedTuple):
    env_steps: int
    episodes: int
    updates: int


class SharedCounters:
    """The env steps, updates and recent episodes of each rank."""

    def __init__(self, ranks: int, window: int, fd: int | None = None):
        """Create the counters, or attach to another process's counters in the file `fd`."""
        layout: Layout = {
            "run": ("int64", (_LINE,)),
            "counts": ("int64", (ranks, _LINE)),
            "recent": ("float64", (ranks, share(window, ranks), 3)),
            "written": ("int64", (ranks, _LINE)),  # Each rank counts its recorded episodes in "written".
            "beats": ("int64", (ranks, _LINE)),  # Each rank counts its calls of `act` and its updates in "beats".
        }
        self._memory = memory = SharedArrays.create(layout) if fd is None else SharedArrays.attach(layout, fd)
        self.fd = memory.fd
        self._counts, self._run, self._recent = memory["counts"], memory["run"], memory["recent"]
        self._written, self._beats = memory["written"], memory["beats"][:, 0]

    def begin(self, env_steps: int) -> None:
        """Record that the run begins at `env_steps`. Rank 0 calls `begin` after publishing the central parameters."""
        self._run[_FROM] = env_steps
        self._run[_BEGUN] = 1

    @property
    def begun(self) -> bool:
        return bool(self._run[_BEGUN])

    def stop(self) -> None:
        """Record that the run ends."""
        self._run[_STOP] = True

    @property
    def stopped(self) -> bool:
        return bool(self._run[_STOP])

    def totals(self) -> Totals:
        """Read all counters together, so that env steps and updates in a row of metrics belong to the same moment."""
        sums = self._counts.copy().sum(axis=0)
        return Totals(int(self._run[_FROM] + sums[_STEPS]), int(sums[_EPISODES]), int(sums[_UPDATES]))

    def of_rank(self, rank: int) -> int:
        """The env steps of a rank, including those of the rank's earlier processes."""
        return int(self._counts[rank, _STEPS])

    def add(self, rank: int, env_steps: int, updates: int, episodes: EpisodeTracker) -> None:
        """Add the counts of a rank's finished cycle. `env_steps` is the number of env steps in the cycle. `updates` and
        `episodes` are the totals of the rank's process so far."""
        counts = self._counts[rank]
        new = min(episodes.count - int(counts[_EPISODES]), len(episodes.recent))
        window, written = self._recent.shape[1], int(self._written[rank, 0])
        for i, episode in enumerate(list(episodes.recent)[len(episodes.recent) - new :] if new > 0 else ()):
            self._recent[rank, (written + i) % window] = episode
        self._written[rank, 0] = written + max(new, 0)
        counts[: _UPDATES + 1] = counts[_STEPS] + env_steps, episodes.count, updates

    def beat(self, rank: int) -> None:
        """Record that a rank acts, learns or evaluates."""
        self._beats[rank] += 1

    def rest(self, rank: int) -> None:
        """Record that a rank neither acts nor learns, because it starts or saves a checkpoint."""
        self._beats[rank] = 0

    def beats(self, rank: int) -> int:
        """A number that changes whenever the rank acts or learns, or 0 from a call of `rest` until the rank acts
        or learns again."""
        return int(self._beats[rank])

    def recent(self) -> list[Recent]:
        """The recent episodes of all ranks, in the order of the ranks."""
        window = self._recent.shape[1]
        ends = [int(n) for n in self._written[:, 0]]
        places = ((rank, i % window) for rank, end in enumerate(ends) for i in range(max(0, end - window), end))
        return [(float(s), int(n), int(game)) for s, n, game in (self._recent[place] for place in places)]

    def close(self) -> None:
        self._counts = self._run = self._recent = self._written = self._beats = np.empty(0)
        self._memory.close()


class StalledRanks:
    """Finds the ranks that stall, from another process of the same machine."""

    def __init__(self, counters: SharedCounters, config: Resolved):
        """A rank is stalled if it uses no CPU time for --distributed.timeout-s. A rank that uses CPU time but neither
        acts nor learns may be replacing worker processes, and is stalled only after the additional time that this may
        take."""
        sampler, self._cpu_s = config.sampler, config.distributed.timeout_s
        self._progress_s = self._cpu_s + max(sampler.timeout_s, sampler.start_timeout_s)
        self._counters = counters
        # Maps a process id to two timers: since CPU time was last used, and since progress was last made.
        self._stalls: dict[int, tuple[Stall, Stall]] = {}
        self._looked_at = time.monotonic()

    def find(self, pids: Mapping[int, int]) -> dict[int, str]:
        """{rank: line that explains why the rank counts as stalled}. The ranks are checked at most once every
        LOOK_S seconds; between two checks, the result is {}. `pids` maps ranks to process ids."""
        if time.monotonic() - self._looked_at < LOOK_S:
            return {}
        self._looked_at = time.monotonic()
        self._stalls = {pid: self._stalls.get(pid) or self._new(rank, pid) for rank, pid in pids.items()}
        result = {}
        for rank, pid in pids.items():
            cpu_s, progress_s = (stall.look() for stall in self._stalls[pid])
            name = f"rank {rank} (pid {pid})"
            if cpu_s > self._cpu_s:
                what = f"has used no CPU time for {self._cpu_s:g} s: it is stopped or hangs, and is killed"
                result[rank] = f"{name} {what}"
            elif progress_s > self._progress_s:
                what = f"has neither acted nor learned for {self._progress_s:g} s: its code hangs, and is killed"
                result[rank] = f"{name} {what}"
        return result

    def _new(self, rank: int, pid: int) -> tuple[Stall, Stall]:
        return Stall(lambda: cpu_ns(pid)), Stall(lambda: self._counters.beats(rank) or time.monotonic_ns())
