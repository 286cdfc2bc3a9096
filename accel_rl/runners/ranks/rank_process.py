"""Rank processes: launch them, read their replies, wait for them."""

import contextlib
import json
import os
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

from accel_rl.config.resolved import Resolved
from accel_rl.runners.plan import RankPlan
from accel_rl.runners.ranks.rank_config import rank_config
from accel_rl.runners.result import Result
from accel_rl.runners.signals import StopRequest
from accel_rl.system import child
from accel_rl.system.errors import ConfigError, RunError

LOOK_S = 0.02
STOP_S = 120.0  # time to end a cycle and write a checkpoint


class RankLost(RuntimeError):
    """A rank was killed by a signal; the run may succeed if it is restarted."""


class RankHandle(Protocol):
    """What a launcher knows of a rank's process: `Rank`, or one on another machine."""

    index: int

    def code(self) -> int | None: ...

    def listen(self) -> None: ...

    def reply(self) -> dict[str, Any]: ...

    def stop(self) -> None: ...

    def ending(self) -> str: ...


@dataclass(slots=True)
class Rank:
    """The process of a rank."""

    index: int
    process: "subprocess.Popen[bytes]"
    reply_fd: int  # pipe on which the process writes its result or error
    received: bytes = b""
    failure_matters: bool = True  # False: an exit code other than 0 is ignored

    def code(self) -> int | None:
        """The exit code, negative for a signal; None while the process runs."""
        code = self.process.poll()
        return code if self.failure_matters or code is None else 0

    def listen(self) -> None:
        """Read the available part of the reply, without waiting."""
        with contextlib.suppress(BlockingIOError):
            while block := os.read(self.reply_fd, 65536):
                self.received += block

    def reply(self) -> dict[str, Any]:
        """Return the process's reply, written at its end; {} if there is none."""
        self.listen()
        try:
            return json.loads(self.received)
        except ValueError:
            return {}

    def stop(self) -> None:
        """Ask the process to save and end."""
        self.process.send_signal(signal.SIGTERM)

    def ending(self) -> str:
        """Describe in one line how the process ended."""
        code, reply = self.code(), self.reply()
        if code is not None and code < 0:
            return f"rank {self.index} (pid {self.process.pid}) was killed by {signal.Signals(-code).name}"
        if "error" in reply:
            return f"rank {self.index}: {reply['error']}"
        return f"rank {self.index} (pid {self.process.pid}) exited with code {code}"

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        os.close(self.reply_fd)


def setup_of(config: Resolved, plan: RankPlan) -> dict[str, Any]:
    """Return the setup of a rank's process: its settings and plan."""
    return {"rank": plan.rank, "config": rank_config(config, plan.rank).to_dict(), "plan": plan.to_dict()}


def launch(
    setup: dict[str, Any],
    fds: tuple[int, ...] = (),
    variables: Mapping[str, str] = os.environ,
    output: int | None = None,
) -> Rank:
    """Start a new interpreter for rank setup["rank"]. The process is not forked, and ends if this process ends.

    fds: descriptors that it inherits. variables: of its environment. output: descriptor; default, this process's.
    """
    read, write = os.pipe()
    os.set_blocking(read, False)
    setup = {**setup, "reply_fd": write, "parent_pid": os.getpid()}
    try:
        process = subprocess.Popen(
            child.command("accel_rl.runners.ranks.rank", json.dumps(setup)),
            pass_fds=(*fds, write),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            env=child.environment(variables),
        )
    finally:
        os.close(write)
    return Rank(setup["rank"], process, read)


def raise_for(rank: RankHandle) -> None:
    """Raise the error that a rank ended with."""
    reply = rank.reply()
    if reply.get("kind") == "ConfigError":
        raise ConfigError(reply["error"])
    if (rank.code() or 0) < 0:
        raise RankLost(rank.ending())
    raise RunError(rank.ending())


def finish(
    ranks: Sequence[RankHandle], stop: StopRequest, fail: Any, look: Callable[[], None] = lambda: None
) -> Result:
    """Wait for all ranks and return rank 0's result; pass a stop request on to them.

    fail: called with each rank whose exit code is not 0. look: called again and again meanwhile. RunError if a rank
    does not stop within STOP_S.
    """
    deadline = None
    while any(r.code() is None for r in ranks):
        for r in ranks:
            r.listen()
            if r.code() not in (None, 0):
                fail(r)
        if stop and deadline is None:
            deadline = time.monotonic() + STOP_S
            for r in ranks:
                if r.code() is None:
                    r.stop()
        if deadline is not None and time.monotonic() > deadline:
            late = ", ".join(str(r.index) for r in ranks if r.code() is None)
            raise RunError(f"rank {late} did not stop within {STOP_S:g} s")
        look()
        time.sleep(LOOK_S)
    for r in ranks:
        if r.code():
            fail(r)
    result = Result.from_dict(ranks[0].reply())
    return replace(result, exit_code=stop.exit_code) if stop else result
