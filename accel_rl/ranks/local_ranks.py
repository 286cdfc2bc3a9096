"""Ranks (training processes) on one machine inherit the memory that they share."""

import contextlib
import json
import os
import signal
import subprocess
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import psutil

from accel_rl.planning.plan import RankPlan, RunPlan
from accel_rl.planning.rank_config import rank_config
from accel_rl.processes import child
from accel_rl.ranks.group import RankGroup, train_with_restarts
from accel_rl.ranks.shared_counters import SharedCounters, StalledRanks
from accel_rl.run.run_folder import RunFolder
from accel_rl.settings.resolved import Resolved
from accel_rl.training.evaluation import Result
from accel_rl.training.observers import Observers


def launch(
    config: Resolved, plan: RunPlan, run: RunFolder, state: dict[str, Any] | None, objects: Observers | None
) -> Result:
    """Train from a checkpoint's state, or from the beginning if `state` is None. Rank 0 builds callbacks and sinks by
    their names, because `objects` cannot be sent to its process. Raises RunError with the number of the failed rank."""

    def build(steps: int | None) -> RankGroup:
        starter = LocalStarter(config, plan, run, steps)
        stalled = None if starter.counters is None else StalledRanks(starter.counters, config)
        return RankGroup(run, starter, config.distributed.size, starter.counters, stalled)

    return train_with_restarts(config, run, state["env_steps"] if state else None, build)


class LocalStarter:
    """A `LocalStarter` starts rank processes with their shared memory. Synchronous ranks share the file through which
    they connect. Asynchronous ranks share the counters and the central parameters."""

    settle_s = 0.5

    def __init__(self, config: Resolved, plan: RunPlan, run: RunFolder, env_steps: int | None):
        self._config, self._plan = config, plan
        self._setup = {"run": str(run.path.absolute()), "env_steps": env_steps}
        self.counters: SharedCounters | None = None
        if config.distributed.is_async:
            self.counters = SharedCounters.create(config.distributed.size, config.log.window)
        name = "store" if self.counters is None else "central"
        # The file through which ranks connect, or the central parameters
        self._memory = os.memfd_create(f"accel_rl_{name}", os.MFD_CLOEXEC)
        self._fds = {name: self._memory}
        if self.counters is not None:
            self._fds["counters"] = self.counters.fd

    def start(self, ranks: Iterable[int]) -> "list[LocalRank]":
        return [self._start(self._plan.ranks[r]) for r in ranks]

    def _start(self, plan: RankPlan) -> "LocalRank":
        settings = rank_config(self._config, plan.rank).to_dict()
        setup = {**self._setup, **self._fds, "rank": plan.rank, "config": settings, "plan": plan.to_dict()}
        return start_rank(setup, tuple(self._fds.values()))

    def close(self) -> None:
        os.close(self._memory)
        if self.counters is not None:
            self.counters.close()


@dataclass(slots=True)
class LocalRank:
    """A `LocalRank` is a rank's process on this machine."""

    index: int
    process: "subprocess.Popen[bytes]"
    reply_fd: int  # The rank's process writes its result or error to the pipe reply_fd.
    received: bytes = b""

    @property
    def pid(self) -> int:
        return self.process.pid

    def code(self) -> int | None:
        return self.process.poll()

    def poll(self) -> None:
        with contextlib.suppress(BlockingIOError):
            while block := os.read(self.reply_fd, 65536):
                self.received += block

    def reply(self) -> dict[str, Any]:
        self.poll()
        try:
            return json.loads(self.received)
        except ValueError:
            return {}

    def stop(self) -> None:
        self.process.send_signal(signal.SIGTERM)

    def is_suspended(self) -> bool:
        try:
            return psutil.Process(self.pid).status() == psutil.STATUS_STOPPED
        except psutil.Error:
            return False

    def ending(self) -> str:
        code, reply = self.code(), self.reply()
        if code is not None and code < 0:
            return f"rank {self.index} (pid {self.pid}) was killed by {signal.Signals(-code).name}"
        if "error" in reply:
            return f"rank {self.index}: {reply['error']}"
        return f"rank {self.index} (pid {self.pid}) exited with code {code}"

    def kill(self) -> None:
        if self.code() is None:
            self.process.kill()

    def close(self) -> None:
        self.kill()
        self.process.wait()
        os.close(self.reply_fd)


def start_rank(
    setup: dict[str, Any],
    fds: tuple[int, ...] = (),
    variables: Mapping[str, str] = os.environ,
    output: int | None = None,
) -> LocalRank:
    """Start a new Python interpreter for the rank with number setup["rank"]. If this process ends, the rank's process
    also ends. `fds` are file descriptors that the new process inherits. `output` is the file descriptor of the new
    process's output."""
    read, write = os.pipe()
    os.set_blocking(read, False)
    setup = {**setup, "reply_fd": write, "parent_pid": os.getpid()}
    try:
        process = child.start(
            child.command("accel_rl.ranks.rank", json.dumps(setup)),
            pass_fds=(*fds, write),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            env=child.environment(variables),
        )
    finally:
        os.close(write)
    return LocalRank(setup["rank"], process, read)
