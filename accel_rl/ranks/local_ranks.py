"""Ranks (training processes) on one machine inherit the memory that they share."""

import contextlib
import json
import os
import signal
import subprocess
from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any

import psutil

from accel_rl.planning.plan import RunPlan
from accel_rl.processes import child
from accel_rl.ranks.group import RankProcess, train_with_restarts
from accel_rl.ranks.shared_counters import SharedCounters
from accel_rl.run.run_folder import RunFolder
from accel_rl.training.evaluation import Result
from accel_rl.training.observers import Observers


def launch(plan: RunPlan, run: RunFolder, state: dict[str, Any] | None, objects: Observers | None) -> Result:
    """Train from a checkpoint's state, or from the beginning if `state` is None. `objects` cannot be sent to the
    process of rank 0, which builds callbacks and sinks of metrics by their names. Raises RunError with the number of
    the failed rank."""
    steps = state["env_steps"] if state else None
    return train_with_restarts(plan.config, run, steps, partial(LocalStarter, plan, run))


class LocalStarter:
    """Starts rank processes with their shared memory. Synchronous ranks share the file through which
    they connect. Asynchronous ranks share the counters and the central parameters."""

    settle_s = 0.5

    def __init__(self, plan: RunPlan, run: RunFolder, env_steps: int | None):
        self._plan, config = plan, plan.config
        size, is_async = config.distributed.size, config.distributed.is_async
        self.counters = SharedCounters(size, config.window) if is_async else None
        # Synchronous ranks connect through this file; asynchronous ranks share their central parameters in it.
        self._memory = os.memfd_create("accel_rl_ranks", os.MFD_CLOEXEC)
        self._fds = {"memory": self._memory, **({"counters": self.counters.fd} if self.counters else {})}
        sizes = {"size": size, "local_size": size, "ranks_on_gpus": size}
        begun = {"run": str(run.path.absolute()), "config": config.to_dict(), "env_steps": env_steps}
        self._setup = {**begun, **sizes, **self._fds}

    def start(self, ranks: Iterable[int]) -> "list[LocalRank]":
        of_ranks = [{"rank": r, "local_rank": r, "plan": self._plan.ranks[r].to_dict()} for r in ranks]
        return [start_rank(self._setup | of_rank, tuple(self._fds.values())) for of_rank in of_ranks]

    def close(self) -> None:
        os.close(self._memory)
        if self.counters is not None:
            self.counters.close()


class LocalRank(RankProcess):
    """A rank's process on this machine, which writes its result or error to the pipe `reply_fd`."""

    def __init__(self, index: int, process: "subprocess.Popen[bytes]", reply_fd: int):
        super().__init__(index, process.pid)
        self._process, self._reply_fd, self._received = process, reply_fd, b""

    def poll(self) -> None:
        self.code = self._process.poll()
        with contextlib.suppress(BlockingIOError):
            while block := os.read(self._reply_fd, 65536):
                self._received += block
        if self.code is None:
            return
        with contextlib.suppress(ValueError):
            self.reply = json.loads(self._received)
        self.ending = f"rank {self.index} (pid {self.pid}) exited with code {self.code}"
        if self.is_killed:
            self.ending = f"rank {self.index} (pid {self.pid}) was killed by {signal.Signals(-self.code).name}"
        elif "error" in self.reply:
            self.ending = f"rank {self.index}: {self.reply['error']}"

    def is_suspended(self) -> bool:
        try:
            return psutil.Process(self.pid).status() == psutil.STATUS_STOPPED
        except psutil.Error:
            return False

    def stop(self) -> None:
        self._process.terminate()

    def kill(self) -> None:
        self._process.kill()

    def close(self) -> None:
        self.kill()
        self._process.wait()
        os.close(self._reply_fd)


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
