"""The process of a rank as the one that started it sees it: launched, listened to, waited for."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import asdict, dataclass, replace
from typing import Any

from accel_rl.config.train import TrainConfig
from accel_rl.runners.plan import RankPlan
from accel_rl.runners.ranks.rank_config import rank_config
from accel_rl.runners.result import Result
from accel_rl.runners.signals import StopRequest
from accel_rl.system.errors import ConfigError, RunError

LOOK_S = 0.02
STOP_S = 120.0  # to end a cycle, and to write a checkpoint


class RankLost(RuntimeError):
    """A rank was killed: nothing is wrong with the run itself."""


@dataclass(slots=True)
class Rank:
    """The process of a rank, and where it says how it ended."""

    index: int
    process: subprocess.Popen
    answer: int  # file descriptor
    heard: bytes = b""
    missed: bool = True  # its end, where it is not a good one, is to be dealt with

    def code(self) -> int | None:
        code = self.process.poll()
        return code if self.missed or code is None else 0

    def listen(self) -> None:
        with contextlib.suppress(BlockingIOError):
            while block := os.read(self.answer, 65536):
                self.heard += block

    def reply(self) -> dict[str, Any]:
        """What the process wrote at its end; {} if it wrote nothing."""
        self.listen()
        try:
            return json.loads(self.heard)
        except ValueError:
            return {}

    def how(self) -> str:
        """Its end in one line."""
        code, words = self.code(), self.reply()
        if code is not None and code < 0:
            return f"rank {self.index} (pid {self.process.pid}) was killed by {signal.Signals(-code).name}"
        if "error" in words:
            return f"rank {self.index}: {words['error']}"
        return f"rank {self.index} (pid {self.process.pid}) exited with code {code}"

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        os.close(self.answer)


def setup_of(config: TrainConfig, plan: RankPlan) -> dict[str, Any]:
    """What the process of a rank is told of a run: its own settings and its own plan."""
    return {"rank": plan.rank, "config": asdict(rank_config(config, plan.rank)), "plan": plan.to_dict()}


def launch(setup: dict[str, Any], fds: tuple[int, ...] = ()) -> Rank:
    """Start a fresh interpreter for rank setup["rank"]: nothing is forked, nothing outlives this process."""
    read, write = os.pipe()
    os.set_blocking(read, False)
    setup = {
        **setup,
        "answer": write,
        "parent_pid": os.getpid(),
        "sys_path": [p or os.getcwd() for p in sys.path],
    }
    try:
        process = subprocess.Popen(
            [sys.executable, "-m", "accel_rl.runners.ranks.rank", json.dumps(setup)],
            pass_fds=(*fds, write),
            stdin=subprocess.DEVNULL,
        )
    finally:
        os.close(write)
    return Rank(setup["rank"], process, read)


def raise_for(rank: Rank) -> None:
    """The error that a rank ended with, as this process's own."""
    words = rank.reply()
    if words.get("kind") == "ConfigError":
        raise ConfigError(words["error"])
    if (rank.code() or 0) < 0:
        raise RankLost(rank.how())
    raise RunError(rank.how())


def finish(ranks: list[Rank], stop: StopRequest, fail: Any) -> Result:
    """Wait for all ranks, pass on what was asked of this process; `fail(rank)` for one that ended otherwise than well.
    RunError where one does not stop."""
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
                    r.process.send_signal(signal.SIGTERM)
        if deadline is not None and time.monotonic() > deadline:
            late = ", ".join(str(r.index) for r in ranks if r.code() is None)
            raise RunError(f"rank {late} did not stop within {STOP_S:g} s")
        time.sleep(LOOK_S)
    for r in ranks:
        if r.code():
            fail(r)
    result = Result.from_dict(ranks[0].reply())
    return replace(result, exit_code=stop.exit_code) if stop else result
