"""Cost of gradient synchronization relative to an update: an all-reduce of A3C-Net's gradient through shared memory and
over gloo, and a push in locked chunks. All times are milliseconds.

    update                       an update of A2C on its batch (80 samples of 104x80x4 by default), without other ranks
    clip, optimizer              clipping alone; clipping and the optimizer step, both parts of an update
    shared_memory_all_reduce     the all-reduce and the clip of ranks on one machine; the other ranks wait in it
    update_with_gloo_all_reduce  an update with the all-reduce of ranks on several machines (here one). The wide
                                 layer's gradient is reduced while earlier layers' gradients are computed
    push                         pull, optimizer step and write-back in chunks; the other ranks are idle
    push_after_another_rank      the same after another rank has pushed: parameters and optimizer state are pulled first

Shares are of an update, medians of interleaved measurements.

    python -m benchmarks.gradient_sync --json OUT [--ranks 2] [--chunks 3]
"""

import contextlib
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from typing import Any

from accel_rl.config.arguments import parse
from accel_rl.system import child
from accel_rl.system.errors import ConfigError
from accel_rl.system.hardware import allowed_cores, pin
from accel_rl.system.process import before_torch

before_torch()

import torch  # noqa: E402

from accel_rl.config.train import TrainConfig, default_config  # noqa: E402
from accel_rl.data.rollout import Rollout  # noqa: E402
from accel_rl.data.spec import EnvSpec  # noqa: E402
from accel_rl.distributed.all_reduce import AllReduce, CollectiveMean, GradientMean  # noqa: E402
from accel_rl.distributed.central import Central  # noqa: E402
from accel_rl.distributed.guarded_step import GuardedStep  # noqa: E402
from accel_rl.distributed.locked_chunk import LockedChunks  # noqa: E402
from accel_rl.distributed.process_group import file_store  # noqa: E402
from accel_rl.distributed.shared_reduce import SharedMemoryMean  # noqa: E402
from accel_rl.optim.flat import clip_by_norm_  # noqa: E402
from accel_rl.runners.learner import Learner  # noqa: E402
from accel_rl.runners.ranks.context import RankContext  # noqa: E402
from accel_rl.runners.ranks.sync_context import join_ranks  # noqa: E402
from accel_rl.system.counts import Count  # noqa: E402
from accel_rl.system.process import tune_torch  # noqa: E402
from benchmarks.interleave import medians  # noqa: E402
from benchmarks.program import program  # noqa: E402

SPEC = EnvSpec("frames", (104, 80), "uint8", 6, 4)


@dataclass(frozen=True)
class Options:
    envs: Count = 16
    """Number of environments of a rank; a batch has 5 steps of each."""
    ranks: Count = 2
    """Number of ranks of the all-reduce."""
    chunks: Count = 3
    """Number of locked chunks of the central parameters."""
    network: str = "a3c"
    """a3c, dqn or nature."""
    threads: Count = 1
    """Number of torch threads of each rank."""
    updates: Count = 20
    """Number of updates in one measurement."""
    repeats: Count = 9
    """Number of measurements of each variant, in turns; medians are reported."""
    json: str = ""
    """Also write everything to this file."""


def config_of(o: Options) -> TrainConfig:
    base = default_config("a2c")
    algo: Any = replace(base.algo, network=o.network)  # type: ignore[call-arg]
    group = replace(base.distributed, ranks=o.ranks, hash_interval=0)
    return replace(base, algo=algo, sampler=replace(base.sampler, envs=o.envs), distributed=group)


def rollout(T: int, B: int) -> Rollout:
    """Return a rollout of random frames."""
    S, g = SPEC.stack, torch.Generator().manual_seed(0)
    no = torch.zeros(T, B, dtype=torch.bool)
    shape = (S - 1 + T + 1, B, *SPEC.frame_shape)
    r = Rollout(
        frames=torch.randint(0, 256, shape, dtype=torch.uint8, generator=g),
        final_frames=torch.zeros(T, B, *SPEC.frame_shape, dtype=torch.uint8),
        age=torch.full((T + 1, B), S - 1, dtype=torch.uint8),
        action=torch.randint(0, 6, (T, B), generator=g),
        reward=torch.randn(T, B, generator=g),
        terminated=no, truncated=no, ended=no, valid=~no, stack=S,
    )  # fmt: skip
    r.recorded = {"value": torch.zeros(T, B), "log_prob": torch.zeros(T, B)}
    return r


def per_call(act: Callable[[], Any], n: int) -> float:
    """Measure milliseconds per call."""
    began = time.perf_counter()
    for _ in range(n):
        act()
    return 1e3 * (time.perf_counter() - began) / n


GLOO, SHARED = 1, 2  # what rank 0 asks of the others, updates times


def shared_of(config: TrainConfig, group: RankContext, gradients: int) -> SharedMemoryMean:
    return SharedMemoryMean(Learner(config, SPEC, "cpu", 0).flat, group.exchange.communicator, gradients, 60.0)


def gloo_of(learner: Learner, group: RankContext) -> AllReduce:
    flat, algo = learner.flat, learner.algo
    guarded = GuardedStep(flat, algo.build_optimizer(len(flat.data)), algo.config.max_grad_norm)
    return AllReduce(guarded, CollectiveMean(flat, group.exchange.communicator), 0)


class Parts:
    """One learner, and the three ways to synchronize its gradient."""

    def __init__(self, o: Options, group: RankContext, gradients: int):
        config = config_of(o)
        self.learner, self.n = Learner(config, SPEC, "cpu", 0), o.updates
        algo, flat = self.learner.algo, self.learner.flat
        algo.ingest(rollout(config.T, o.envs))
        self._batch = next(iter(algo.batches()))
        self.local, self.loss = self.learner.gradient_sync, torch.zeros(())
        self.reduce = gloo_of(self.learner, group)
        self._communicator, self.shared = group.exchange.communicator, shared_of(config, group, gradients)
        self.chunks = LockedChunks(flat, algo.build_optimizer, algo.config.max_grad_norm, o.chunks)
        self._fd = os.memfd_create("chunks")
        self.chunks.connect(Central(self.chunks.parts, self.chunks.states(), self._fd, create=True), publish=True)

    def update(self) -> float:
        return per_call(lambda: self.learner.update(self._batch), self.n)

    def optimizer(self) -> float:
        """Measure clipping and the optimizer step, as in every update."""
        return per_call(lambda: self.local.step(1e-9, self.loss), self.n)

    def update_with_gloo_all_reduce(self) -> float:
        """Measure an update with the all-reduce over gloo."""
        self._communicator.all_reduce_sum(torch.tensor(GLOO))
        self.learner.gradient_sync = self.reduce
        try:
            return self.update()
        finally:
            self.learner.gradient_sync = self.local

    def shared_memory_all_reduce(self) -> float:
        self._communicator.all_reduce_sum(torch.tensor(SHARED))
        return per_call(lambda: self.shared.reduce(self.loss, 1.0, 0.5), self.n)

    def clip(self) -> float:
        """Measure clipping alone, which both all-reduces include."""
        return per_call(lambda: clip_by_norm_(self.learner.flat.grad, 0.5), self.n)

    def push(self) -> float:
        return per_call(lambda: self.chunks.step(1e-9, self.loss), self.n)

    def push_after_another_rank(self) -> float:
        def act() -> None:
            self.chunks.forget()
            self.chunks.step(1e-9, self.loss)

        return per_call(act, self.n)

    def close(self) -> None:
        os.close(self._fd)


@contextlib.contextmanager
def waiting_ranks(o: Options, fd: int, gradients: int) -> Iterator[None]:
    """Run the other ranks: each waits for a request, then takes part in the collectives."""
    own = {f.replace("_", "-"): v for f, v in asdict(o).items() if f != "json"}
    flags = [x for f, v in own.items() for x in (f"--{f}", str(v))]
    others = [
        subprocess.Popen(
            child.command("benchmarks.gradient_sync", f"rank={r}", f"fd={fd}", f"gradients={gradients}", *flags),
            env=child.environment(packages=["benchmarks"]),
            pass_fds=(fd, gradients),
            stderr=subprocess.DEVNULL,
        )
        for r in range(1, o.ranks)
    ]
    try:
        yield
    finally:
        for p in others:
            p.kill()
            p.wait()


@contextlib.contextmanager
def settled(rank: int, threads: int) -> Iterator[None]:
    """Pin this rank to a core, as in a run, and restore the affinity afterwards."""
    cores = allowed_cores()
    if threads == 1:
        pin((cores[rank % len(cores)],))
    tune_torch(threads)
    try:
        yield
    finally:
        pin(cores)


def wait(o: Options, rank: int, fd: int, gradients: int) -> None:
    """Run one of the other ranks until it is killed."""
    config = config_of(o)
    with join_ranks(config, "cpu", file_store(fd, o.ranks), rank, o.ranks, o.ranks) as group, settled(rank, 1):
        shared, gloo = shared_of(config, group, gradients), gloo_of(Learner(config, SPEC, "cpu", 0), group)
        loss, parameters = torch.zeros(()), [p for _, p in gloo.flat.named]
        means: dict[int, GradientMean] = {GLOO: gloo.mean, SHARED: shared}
        while True:
            asked = int(group.exchange.communicator.all_reduce_sum(torch.tensor(0)))
            for _ in range(o.updates):
                if asked == GLOO:
                    gloo.backward(torch.stack([p.sum() for p in parameters]).sum())
                means[asked].reduce(loss, 1.0, 0.5)


def timed(o: Options, fd: int, gradients: int) -> tuple[int, dict[str, list[float]]]:
    """Measure every part in turns; returns (number of parameters, {part: milliseconds of each turn})."""
    names = (
        "update", "clip", "optimizer", "update_with_gloo_all_reduce", "shared_memory_all_reduce", "push",
        "push_after_another_rank",
    )  # fmt: skip
    found: dict[str, list[float]] = {name: [] for name in names}
    with join_ranks(config_of(o), "cpu", file_store(fd, o.ranks), 0, o.ranks, o.ranks) as group, settled(0, o.threads):
        parts = Parts(o, group, gradients)
        for name in found:  # once to warm up
            getattr(parts, name)()
        for _ in range(o.repeats):
            for name, values in found.items():
                values.append(getattr(parts, name)())
        parts.close()
        return len(parts.learner.flat.data), found


def measure(o: Options) -> dict[str, Any]:
    fd, gradients = os.memfd_create("store"), os.memfd_create("gradients")
    with waiting_ranks(o, fd, gradients):
        parameters, found = timed(o, fd, gradients)
    os.close(fd)
    os.close(gradients)
    m = medians(found)
    pairs = zip(found["update_with_gloo_all_reduce"], found["update"], strict=True)
    more = statistics.median(with_it - alone for with_it, alone in pairs)
    return {
        "parameters": parameters,
        "batch": 5 * o.envs,
        "milliseconds": found,
        "median": m,
        "gloo_all_reduce_ms": more,
        "gloo_all_reduce_share": more / m["update"],
        "shared_memory_all_reduce_share": (m["shared_memory_all_reduce"] - m["clip"]) / m["update"],
        "push_share": (m["push"] - m["optimizer"]) / m["update"],
        "push_after_another_rank_share": (m["push_after_another_rank"] - m["optimizer"]) / m["update"],
    }


def report(o: Options, result: dict[str, Any]) -> list[str]:
    r: dict[str, Any] = result["result"]
    m = r["median"]
    shared = m["shared_memory_all_reduce"] - m["clip"]
    return [
        f"an update of {r['batch']} samples, {r['parameters']:,} parameters: {m['update']:.2f} ms, "
        f"of which clip and optimizer {m['optimizer']:.2f} ms",
        f"all-reduce through shared memory (all ranks on one machine), {o.ranks} ranks: "
        f"{shared:.2f} ms beyond the clip, {100 * r['shared_memory_all_reduce_share']:.1f} %",
        f"all-reduce over gloo (ranks of several machines; here both ends are this one), {o.ranks} ranks: "
        f"an update takes {r['gloo_all_reduce_ms']:.2f} ms longer, {100 * r['gloo_all_reduce_share']:.1f} %",
        f"push in {o.chunks} locked chunks: {m['push'] - m['optimizer']:.2f} ms beyond the optimizer, "
        f"{100 * r['push_share']:.1f} %; where another rank has pushed in between: "
        f"{m['push_after_another_rank'] - m['optimizer']:.2f} ms, {100 * r['push_after_another_rank_share']:.1f} %",
    ]


def check(o: Options) -> None:
    for name in ("envs", "ranks", "chunks", "threads", "updates", "repeats"):
        if getattr(o, name) < 1:
            raise ConfigError(f"--{name} {getattr(o, name)}: must be at least 1")
    if o.network not in ("a3c", "dqn", "nature"):
        raise ConfigError(f"--network {o.network}: must be of a3c, dqn, nature")


def main(argv: list[str]) -> int:
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    place = dict(a.split("=") for a in argv if a.startswith(("rank=", "fd=", "gradients=")))
    argv = [a for a in argv if a[:2] == "--" or "=" not in a]
    if place:
        wait(parse(Options, argv, "", ""), int(place["rank"]), int(place["fd"]), int(place["gradients"]))
    return program("gradient_sync", __doc__, Options, argv, check, lambda o: {"result": measure(o)}, report)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
