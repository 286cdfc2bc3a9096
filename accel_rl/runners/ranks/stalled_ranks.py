"""An asynchronous rank stalls if it uses no CPU time, because it is stopped or blocked, or if it neither acts nor
learns, because a user's code loops for ever."""

import time
from collections.abc import Mapping

from accel_rl.config.resolved import Resolved
from accel_rl.runners.ranks.shared_counters import SharedCounters
from accel_rl.system.usage import LOOK_S, Stall, cpu_ns


class StalledRanks:
    """`StalledRanks` finds the ranks that stall, from another process of the same machine."""

    def __init__(self, counters: SharedCounters, config: Resolved):
        """A rank without CPU time stalls after --distributed.timeout-s. A rank that neither acts nor learns stalls
        later, because it may have to replace worker processes first."""
        sampler, self._cpu_s = config.sampler, config.distributed.timeout_s
        self._progress_s = self._cpu_s + max(sampler.timeout_s, sampler.start_timeout_s)
        self._counters = counters
        self._stalls: dict[int, tuple[Stall, Stall]] = {}  # Maps a process id to the stalls of CPU time and progress.
        self._looked_at = time.monotonic()

    def find(self, pids: Mapping[int, int]) -> dict[int, str]:
        """Return {rank: line that explains why the rank stalls}, at most once in LOOK_S seconds. `pids` maps ranks to
        process ids."""
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
