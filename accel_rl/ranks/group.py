"""Starts a run's rank processes together, watches them, and replaces or restarts a killed rank.

    | with RankGroup(run, starter, config) as group:      spawns every rank
    |     result = group.train()                          watches all ranks to their end

`LocalStarter` starts ranks on this machine, and `RayStarter` starts ranks on the machines of a Ray cluster.
"""

import sys
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any, Protocol

from accel_rl.checkpoints.checkpoint import Checkpoints
from accel_rl.processes.process import STOP_PATIENCE_S
from accel_rl.ranks.shared_counters import SharedCounters, StalledRanks
from accel_rl.run.rewind import rewind
from accel_rl.run.run_folder import RunFolder
from accel_rl.settings.resolved import Resolved
from accel_rl.text.errors import ConfigError, RunError
from accel_rl.text.output import print_text
from accel_rl.training.evaluation import Result
from accel_rl.training.signals import StopRequest

POLL_S = 0.02
STOP_S = 120.0  # A stopped rank has `STOP_S` seconds to write its checkpoint.
MAX_FAILED_STARTS = 3


class RankLost(RuntimeError):
    """A rank's process was killed by a signal."""


class RankProcess:
    """The process of one rank. `poll` updates `code`, `reply` and `ending`. No method waits for the process, except
    `close`."""

    code: int | None = None
    """Exit code, negative for a signal, or None while the process runs"""
    ending = ""
    """One line that describes how the process ended"""

    def __init__(self, index: int, pid: int):
        self.index, self.pid = index, pid
        self.reply = dict[str, Any]()  # The result or error that the process wrote at its end

    @property
    def is_killed(self) -> bool:
        return (self.code or 0) < 0

    def error(self) -> Exception:
        if self.reply.get("kind") == "ConfigError":
            return ConfigError(self.reply["error"])
        return RankLost(self.ending) if self.is_killed else RunError(self.ending)

    def poll(self) -> None:
        """Read the process's new output, its exit code and its reply."""

    def is_suspended(self) -> bool:
        """Whether the process is known to be stopped by SIGSTOP, so that it obeys no request."""
        return False

    def stop(self) -> None:
        """Request that the process saves a checkpoint and ends."""

    def kill(self) -> None: ...

    def close(self) -> None:
        """Kill the process and free its pipe."""


class Starter(Protocol):
    settle_s: float
    """If a rank ends, the `RankGroup` waits settle_s seconds to determine which rank failed first."""

    @property
    def counters(self) -> SharedCounters | None:
        """The counters of asynchronous ranks."""

    def start(self, ranks: Iterable[int]) -> Sequence[RankProcess]:
        """Start the processes of the given ranks. Raises RunError or ConfigError."""

    def close(self) -> None: ...


class RankGroup:
    """The processes of all ranks. If a rank fails, all ranks end. If the starter has counters, the ranks are
    asynchronous: a rank that stalls is killed, and a killed rank is replaced while the other ranks continue."""

    def __init__(self, run: RunFolder, starter: Starter, config: Resolved):
        self._run, self._starter, self._counters = run, starter, starter.counters
        self._stalled = None if self._counters is None else StalledRanks(self._counters, config)
        self._size, self._ranks = config.distributed.size, list[RankProcess]()
        self._suspended_since = 0.0
        self._given_up = set[int]()  # Ranks in `_given_up` were killed while the run was ending, and are not replaced.
        self._steps_at_start = [0] * self._size  # Lists each rank's number of env steps when its process started.
        self._failed_starts = [0] * self._size  # Counts, for each rank, consecutive starts without an env step.

    def __enter__(self) -> "RankGroup":
        try:
            self._ranks = list(self._starter.start(range(self._size)))
        except BaseException:
            self._starter.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        # All ranks receive the request to stop before the `RankGroup` waits for any rank.
        for rank in self._ranks:
            rank.kill()
        for rank in self._ranks:
            rank.close()
        self._starter.close()

    def train(self) -> Result:
        """Watch all ranks to their end, forward a stop request to the ranks, and return rank 0's result. Raises
        RankLost, RunError or ConfigError if a rank fails, cannot be replaced, or does not stop within STOP_S
        seconds."""
        deadline = None
        with StopRequest() as stop:
            while True:
                for rank in tuple(self._ranks):
                    rank.poll()
                    if rank.code and rank.index not in self._given_up:
                        self._failed(rank, stop)
                if not (running := [r for r in self._ranks if r.code is None]):
                    break
                if (stop or self._stop_code()) and deadline is None:
                    deadline = time.monotonic() + STOP_S
                    for rank in running:
                        rank.stop()
                if deadline is not None:
                    self._require_stops(running, deadline)
                if self._stalled is not None:
                    self._kill_stalled(running, self._stalled)
                time.sleep(POLL_S)
            result = Result.from_dict(self._ranks[0].reply)
            return replace(result, exit_code=stop.exit_code or self._stop_code())

    def _require_stops(self, running: Sequence[RankProcess], deadline: float) -> None:
        """Raise RunError if a rank that was asked to stop has not ended at `deadline`. A suspended rank cannot save a
        checkpoint. A suspended asynchronous rank is therefore killed, and synchronous ranks end without a
        checkpoint."""
        if time.monotonic() > deadline and running:
            raise RunError(f"rank {', '.join(str(r.index) for r in running)} did not stop within {STOP_S:g} s")
        suspended = [rank for rank in running if rank.is_suspended()]
        if not suspended:
            self._suspended_since = time.monotonic()
        elif time.monotonic() > self._suspended_since + STOP_PATIENCE_S:
            lines = [f"rank {rank.index} (pid {rank.pid}) is suspended (SIGSTOP) and cannot save" for rank in suspended]
            if self._counters is None:
                raise RunError("; ".join(lines))
            for rank, line in zip(suspended, lines, strict=True):
                _report(self._run, line)
                rank.kill()

    def _kill_stalled(self, running: Sequence[RankProcess], stalled: StalledRanks) -> None:
        """Kill each rank that stalls. Synchronous ranks notice a stalled rank themselves."""
        lines = stalled.find({rank.index: rank.pid for rank in running})
        for rank in running:
            if rank.index in lines:
                _report(self._run, lines[rank.index])
                rank.kill()

    def _stop_code(self) -> int:
        """The exit code of a rank that was stopped by a signal, or 0 if no rank was stopped."""
        return max(r.reply.get("exit_code", 0) if r.code == 0 else 0 for r in self._ranks)

    def _failed(self, rank: RankProcess, stop: StopRequest) -> None:
        """Replace a killed rank if ranks are asynchronous, and otherwise raise the rank's error."""
        if self._counters is None:
            raise (self._killed() or rank).error()  # A rank may have failed because another rank was killed.
        if not rank.is_killed:
            raise rank.error()
        self._replace(rank, stop, self._counters)

    def _killed(self) -> RankProcess | None:
        """A rank that was killed, or None. All ranks are polled for a while: the error of a rank that lost its peer may
        be noticed before the end of the killed rank."""
        deadline = time.monotonic() + self._starter.settle_s
        while True:
            for rank in self._ranks:
                rank.poll()
                if rank.is_killed:
                    return rank
            if time.monotonic() > deadline or all(rank.code is not None for rank in self._ranks):
                return None
            time.sleep(POLL_S)

    def _replace(self, rank: RankProcess, stop: StopRequest, counters: SharedCounters) -> None:
        """Start a new process for a killed rank, unless the run is ending. Raises RunError."""
        r, steps = rank.index, counters.of_rank(rank.index)
        self._failed_starts[r] = 0 if steps > self._steps_at_start[r] else self._failed_starts[r] + 1
        if self._failed_starts[r] >= MAX_FAILED_STARTS:
            raise RunError(f"{rank.ending} before its first rollout, {MAX_FAILED_STARTS} times in a row")
        if r and (stop or self._ranks[0].code == 0):  # A killed rank is not replaced when the run is ending.
            self._given_up.add(r)
            self._run.event(rank.ending)
            return
        if stop:
            raise RunError(f"{rank.ending} before it had saved a checkpoint")
        self._steps_at_start[r] = steps
        rank.close()
        counters.rest(r)
        (self._ranks[r],) = self._starter.start([r])
        _report(self._run, f"{rank.ending}: the other ranks continue, pid {self._ranks[r].pid} takes its place")


def train_with_restarts(
    config: Resolved, run: RunFolder, env_steps: int | None, starter: Callable[[int | None], Starter]
) -> Result:
    """Train, and restart all ranks from the newest checkpoint if a rank is lost, up to --distributed.max-restarts
    times. `starter` is a function that returns the starter of ranks that begin at the given env steps. Raises RunError
    with the number of the failed rank."""
    restarts, most = 0, config.distributed.max_restarts
    while True:
        try:
            with RankGroup(run, starter(env_steps), config) as group:
                return group.train()
        except RankLost as lost:
            if restarts >= most:
                raise RunError(str(lost)) from lost
            line = str(lost)
        restarts += 1
        steps = Checkpoints(run.path / "checkpoints").steps()
        env_steps = steps[-1] if steps else None
        if env_steps is not None:
            rewind(run, env_steps, chosen=False)
        _report(run, f"{line}; restart {restarts} of {most} from {env_steps or 0:,} env steps")


def _report(run: RunFolder, line: str) -> None:
    run.event(line)
    print_text(line, sys.stderr)
