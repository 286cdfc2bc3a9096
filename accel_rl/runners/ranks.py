"""One process a rank: started, watched, ended together or replaced (Stooke & Abbeel 2018, sections 4.2 and 4.3)."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from typing import Any

from accel_rl import hardware
from accel_rl.config import TrainConfig
from accel_rl.errors import ConfigError, RunError
from accel_rl.runners.checkpoint import Checkpoints
from accel_rl.runners.evaluation import Evaluation
from accel_rl.runners.run_folder import RunFolder
from accel_rl.runners.signals import StopRequest
from accel_rl.runners.trainer import Result

LOOK_S = 0.02
STOP_S = 120.0  # to end a cycle, and to write a checkpoint
SETTLE_S = 0.5  # who notices that another rank died may end before the dead one is found


def config_of(config: TrainConfig, rank: int, local_rank: int | None = None, local_ranks: int = 0) -> TrainConfig:
    """What one rank runs: its environments, its device, its share of the cores (of those of its machine), its part of
    the replay."""
    g = config.group
    if not g.several:
        return replace(config, device=g.device(0, config.device))
    local = rank if local_rank is None else local_rank
    cores = config.sampler.cores
    if (local_ranks or g.size) > 1:
        cores = hardware.share_of_cores(hardware.usable_cores(cores), local_ranks or g.size, local)
    return replace(
        config,
        sampler=replace(config.sampler, envs=config.rank_envs, horizon=config.T, cores=cores),
        algo=config.algo.of_rank(g.size),
        device=g.device(local, config.device),
        wandb="disabled" if rank else config.wandb,
        log=replace(config.log, tensorboard=config.log.tensorboard and not rank),
    )


def configs(config: TrainConfig) -> Iterator[TrainConfig]:
    """Of every rank."""
    return (config_of(config, r) for r in range(config.group.size))


def folder_of(run: RunFolder, rank: int) -> RunFolder:
    """Where a rank keeps its own part of the checkpoints; rank 0: in the run's folder itself."""
    if rank == 0:
        return run
    folder = RunFolder(run.path / "ranks" / str(rank))
    folder.path.mkdir(parents=True, exist_ok=True)
    return folder


def train(config: TrainConfig, run: RunFolder, env_steps: int | None) -> Result:
    """The run from its checkpoint at env_steps, or from the beginning (None). RunError, naming the rank at fault."""
    if config.group.update == "async":
        from accel_rl.runners.free_ranks import FreeRanks

        return FreeRanks(config, run, env_steps).train()
    restarts = 0
    while True:
        with InStep(config, run, env_steps) as group:
            try:
                return group.train()
            except RankLost as lost:
                if restarts >= config.group.max_restarts:
                    raise RunError(str(lost)) from lost
                line = str(lost)
        restarts += 1
        steps = Checkpoints(run.path / "checkpoints").steps()
        env_steps = steps[-1] if steps else None
        line += f"; restart {restarts} of {config.group.max_restarts} from {env_steps or 0:,} env steps"
        run.event(line)
        print(line, file=sys.stderr, flush=True)


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

    def said(self) -> dict[str, Any]:
        """Its last words, {} if it had none."""
        self.listen()
        try:
            return json.loads(self.heard)
        except ValueError:
            return {}

    def how(self) -> str:
        """Its end in one line."""
        code, words = self.code(), self.said()
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


def launch(index: int, setup: dict[str, Any], fds: tuple[int, ...] = ()) -> Rank:
    """A fresh interpreter for rank `index`: nothing is forked, nothing outlives this process."""
    read, write = os.pipe()
    os.set_blocking(read, False)
    setup = {
        **setup,
        "rank": index,
        "answer": write,
        "parent_pid": os.getpid(),
        "sys_path": [p or os.getcwd() for p in sys.path],
    }
    try:
        process = subprocess.Popen(
            [sys.executable, "-m", "accel_rl.runners.rank", json.dumps(setup)],
            pass_fds=(*fds, write),
            stdin=subprocess.DEVNULL,
        )
    finally:
        os.close(write)
    return Rank(index, process, read)


def result_of(words: dict[str, Any]) -> Result:
    """What rank 0 says at the end."""
    e = words["evaluation"]
    evaluation = Evaluation(tuple(e["scores"]), tuple(e["lengths"]), e["protocol"]) if e else None
    return Result(words["env_steps"], words["score"], evaluation, words["exit_code"], words["wall_s"])


def told(result: Result) -> dict[str, Any]:
    """The inverse."""
    fields = {name: getattr(result, name) for name in ("env_steps", "score", "exit_code", "wall_s")}
    return {**fields, "evaluation": None if result.evaluation is None else result.evaluation.to_dict()}


def raise_for(rank: Rank) -> None:
    """The error that a rank ended with, as this process's own."""
    words = rank.said()
    if words.get("kind") == "ConfigError":
        raise ConfigError(words["error"])
    if (rank.code() or 0) < 0:
        raise RankLost(rank.how())
    raise RunError(rank.how())


class InStep:
    """Ranks that cannot go on without each other: they meet through a file without a name, and where one is lost all
    end."""

    def __init__(self, config: TrainConfig, run: RunFolder, env_steps: int | None):
        self.config, self.run = config, run
        self._setup = {"run": str(run.path.absolute()), "env_steps": env_steps, "size": config.group.size}
        self._ranks: list[Rank] = []

    def __enter__(self) -> "InStep":
        fds = tuple(os.memfd_create(f"accel_rl_{name}", os.MFD_CLOEXEC) for name in ("store", "gradients"))
        try:
            setup = {**self._setup, "config": asdict(self.config), "store": fds[0], "gradients": fds[1]}
            self._ranks = [launch(r, setup, fds) for r in range(self.config.group.size)]
        finally:
            for fd in fds:
                os.close(fd)
        return self

    def __exit__(self, *_: object) -> None:
        for rank in self._ranks:
            if rank.code() is None:
                rank.process.kill()
        for rank in self._ranks:
            rank.close()

    def train(self) -> Result:
        """RankLost, RunError, ConfigError."""
        with StopRequest() as stop:
            return finish(self._ranks, stop, self._fail)

    def _fail(self, rank: Rank) -> None:
        """Within SETTLE_S the others end too; one that was killed is the cause, whoever noticed first."""
        deadline = time.monotonic() + SETTLE_S
        while time.monotonic() < deadline and not any((r.code() or 0) < 0 for r in self._ranks):
            time.sleep(LOOK_S)
        raise_for(next((r for r in self._ranks if (r.code() or 0) < 0), rank))


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
    result = result_of(ranks[0].said())
    return replace(result, exit_code=stop.exit_code) if stop else result
