"""Synchronous ranks (training processes) begin and end every cycle together (Stooke & Abbeel 2018, section 4.2)."""

import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from statistics import fmean
from typing import Any, NoReturn

import torch

from accel_rl.algos.algorithm import Algorithm
from accel_rl.checkpoints.checkpoint import Checkpoints, load
from accel_rl.data.shared_memory import address, open_at
from accel_rl.distributed.all_reduce import AllReduce, CollectiveMean, GradientMean, compare_ranks
from accel_rl.distributed.collective import Collective
from accel_rl.distributed.gradient_sync import GradientSync
from accel_rl.distributed.guarded_step import GuardedStep
from accel_rl.distributed.patient_store import PatientStore
from accel_rl.distributed.process_group import backend, part, process_group
from accel_rl.distributed.shared_reduce import SharedMemoryMean
from accel_rl.optim.flat import FlatParameters
from accel_rl.planning.plan import RankPlan
from accel_rl.ranks.gpu_watch import watched
from accel_rl.ranks.shared_counters import share
from accel_rl.run.run_folder import RunFolder
from accel_rl.samplers.episodes import EpisodeTracker, Recent
from accel_rl.settings.resolved import Resolved
from accel_rl.text.errors import RunError
from accel_rl.training.build_trainer import build_trainer
from accel_rl.training.context import Barrier, Clock, Exchange, RankContext
from accel_rl.training.evaluation import Result
from accel_rl.training.observers import Observers

SAVE_S = 1800.0  # A rank has `SAVE_S` seconds to write its checkpoint.
LOOK_S = 1.0
BARRIER = "the barrier's keys"


class SyncClock(Clock):
    """After each cycle, a `SyncClock` sums the env steps of all ranks, and may stop all ranks together."""

    def __init__(self, communicator: Collective):
        self._communicator = communicator

    def count(self, env_steps: int, taken: int, episodes: EpisodeTracker, updates: int) -> int:
        return env_steps + self._communicator.count(taken).of_run

    def agree(self, stop: bool, save: bool) -> tuple[bool, bool]:
        """Return whether any rank requests a stop, and otherwise whether rank 0 requests a checkpoint. A run that stops
        always saves a checkpoint."""
        wanted = 2 if stop else int(save and self._communicator.rank == 0)
        decided = int(self._communicator.all_reduce_max(torch.tensor(wanted)))
        return decided == 2, decided == 1

    def report(self, episodes: EpisodeTracker, updates: int) -> tuple[list[Recent], int, int]:
        n = share(episodes.recent.maxlen or 0, self._communicator.size)
        result = self._communicator.gather((list(episodes.recent)[-n:], episodes.count))
        return [e for recent, _ in result for e in recent], sum(n for _, n in result), updates

    def means(self, of_rank: dict[str, float]) -> dict[str, float]:
        ranks = self._communicator.gather(of_rank)
        if self._communicator.rank:
            return of_rank
        return {name: fmean(r[name] for r in ranks if name in r) for name in of_rank}


class SyncExchange(Exchange):
    """Averages the gradients of all ranks."""

    communicator: Collective

    def __init__(self, communicator: Collective, timeout_s: float, hash_interval: int, shared: int | None):
        """If all ranks are on this machine, `shared` is the file descriptor of the shared memory for gradients."""
        self.communicator, self.shared = communicator, shared
        self._timeout_s, self._hash_interval = timeout_s, hash_interval

    @property
    def captures_updates(self) -> bool:
        """Whether collectives run on the GPU (NCCL), so that updates can be captured, and not in the host's
        memory (gloo)."""
        return self.communicator.on_gpu

    def gradient_sync(self, flat: FlatParameters, algo: Algorithm) -> GradientSync:
        guarded = GuardedStep(flat, algo.build_optimizer(len(flat.data)), algo.config.max_grad_norm)
        shared, self.shared = self.shared, None
        if shared is not None and flat.data.device.type == "cpu":
            mean: GradientMean = SharedMemoryMean(flat, self.communicator, shared, self._timeout_s)
        else:
            mean = CollectiveMean(flat, self.communicator)
        return AllReduce(guarded, mean, self._hash_interval)

    def open(self, gradient_sync: GradientSync, env_steps: int) -> None:
        """Check that all ranks begin with the same network and the same number of env steps. Raises RunError."""
        compare_ranks(gradient_sync.flat, self.communicator, 0, with_untrained=True)
        steps = self.communicator.gather(env_steps)
        if len(set(steps)) > 1:
            raise RunError(f"the ranks' checkpoints are of {steps} env steps")


class SyncBarrier(Barrier):
    """Ranks that wait at a `SyncBarrier` poll the process group's key-value store, because a wait may last longer than
    the timeout of collective operations."""

    saves_together = True

    def __init__(self, communicator: Collective, store: PatientStore, timeout_s: float):
        self._communicator, self._store, self._timeout_s = communicator, store, timeout_s
        self._rank, self._size = communicator.rank, communicator.size
        self._turns = 0  # Number of waits at the barrier, equal on all ranks
        self._beaten = 0.0

    def agreed(self, done: bool) -> bool:
        self._turns += 1
        key = f"outcome/{self._turns}"
        if self._rank == 0:
            self._call(self._store.set, key, str(int(done)))
            return done
        return bool(int(self._await(key, 0)))

    def beat(self) -> None:
        now = time.monotonic()
        if now - self._beaten > LOOK_S:
            self._beaten = now
            self._call(self._store.add, f"beats/{self._rank}", 1)

    @contextmanager
    def _beating(self) -> Iterator[None]:
        """A context manager in which a thread signals that this rank is working, for at most SAVE_S seconds."""
        ended = threading.Event()

        def beat() -> None:
            deadline = time.monotonic() + SAVE_S
            with suppress(RunError):
                while not ended.wait(LOOK_S) and time.monotonic() < deadline:
                    self._store.add(f"beats/{self._rank}", 1)

        threading.Thread(target=beat, daemon=True).start()
        try:
            yield
        finally:
            ended.set()

    @contextmanager
    def saving(self) -> Iterator[None]:
        """A context manager in which this rank writes its part of a checkpoint. Rank 0 writes last, so if rank 0's
        checkpoint exists, those of all ranks exist."""
        self._turns += 1
        part, complete = f"part/{self._turns}/", f"complete/{self._turns}"
        with self._beating():
            if self._rank == 0:
                for r in range(1, self._size):
                    self._await(f"{part}{r}", r)
            yield
        self._call(self._store.set, complete if self._rank == 0 else f"{part}{self._rank}", "1")
        if self._rank:
            self._await(complete, 0)

    def _await(self, key: str, awaited: int) -> str:
        """Wait for a key of the store, and return its value. Raises RunError if the rank `awaited` does not signal for
        timeout_s seconds that it is working."""
        waited = 0.0
        polled = time.monotonic()
        last = -1
        while True:
            if self._call(self._store.check, key):
                return str(self._call(self._store.get, key))
            beat = self._call(self._store.add, f"beats/{awaited}", 0)
            now = time.monotonic()
            waited += min(now - polled, LOOK_S)  # Time while this process was suspended does not count as waiting.
            polled = now
            if beat != last:
                waited, last = 0.0, beat
            if waited > self._timeout_s:
                raise self._communicator.failed(BARRIER, f"rank {awaited} is silent for {self._timeout_s:g} s")
            time.sleep(0.01)

    def _call(self, call: Callable[..., Any], *args: Any) -> Any:
        """Call a method of the store. Raises RunError if the store's process has ended or cannot be reached."""
        try:
            return call(*args)
        except RunError as e:
            raise self._communicator.failed(BARRIER, str(e)) from e


def sync_context(store: Any, timeout_s: float, hash_interval: int) -> RankContext:
    """This rank's `RankContext` in torch's default process group, which was formed through `store`."""
    communicator = Collective(store)
    return RankContext(
        SyncClock(communicator),
        SyncExchange(communicator, timeout_s, hash_interval, _shared_gradients(store, communicator)),
        SyncBarrier(communicator, PatientStore(store, timeout_s), timeout_s),
        communicator.rank,
    )


@contextmanager
def join_ranks(
    config: Resolved, device: str, store: Any, rank: int, size: int, local_ranks: int
) -> Iterator[RankContext]:
    """Form the process group and yield this rank's context. Raises RunError. `local_ranks` is the number of ranks on
    this machine."""
    g = config.distributed
    gpus = len(set(g.gpu_list)) or 1  # Without --gpus, all ranks of a machine use the device of --device.
    with process_group(store, rank, size, backend(device, gpus, local_ranks), device, g.timeout_s):
        yield sync_context(store, g.timeout_s, g.hash_interval)


def train(
    config: Resolved,
    plan: RankPlan,
    folder: RunFolder,
    env_steps: int | None,
    store: Any,
    local_ranks: int,
    end: Callable[[RunError], NoReturn],
) -> Result:
    """Join the other ranks, and train to the end of the run. Raises RunError. Training continues from the checkpoint at
    `env_steps`, which is None for a new run. If the GPU hangs, another thread calls `end`, which prints the error and
    ends this process, because the main thread is waiting for the GPU."""
    state = None if env_steps is None else load(Checkpoints(folder.path / "checkpoints").path(env_steps))
    with join_ranks(config, plan.device, store, plan.rank, plan.size, local_ranks) as context:
        exchange = context.exchange
        assert isinstance(exchange, SyncExchange)
        timeout_s = config.distributed.timeout_s

        def hangs() -> None:
            why = f"its GPU has completed nothing for {timeout_s:g} s"
            end(exchange.communicator.failed("gradients", why))

        with watched(plan.device, timeout_s, hangs) if exchange.captures_updates else nullcontext():
            result = build_trainer(config, plan, folder, state, context, Observers.of(config)).run()
    part(store, plan.rank, plan.size, timeout_s)
    return result


def _shared_gradients(store: Any, communicator: Collective) -> int | None:
    """Create shared memory for gradients if all ranks are on one machine, and return its file descriptor."""
    fd = None
    if communicator.rank == 0:
        fd = os.memfd_create("accel_rl_gradients", os.MFD_CLOEXEC)
        store.set("gradients", address(fd))
    else:
        # Ranks on different machines cannot share memory, so gradients are sent over the network.
        with suppress(RunError):
            fd = open_at(store.get("gradients").decode())
    return fd if communicator.all_reduce_min(int(fd is not None)) else None
