"""Synchronous ranks: all ranks begin and end every cycle together (Stooke & Abbeel 2018, section 4.2)."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch

from accel_rl.algos.algorithm import Algorithm
from accel_rl.config.resolved import Resolved
from accel_rl.distributed.all_reduce import AllReduce, CollectiveMean, GradientMean, compare_ranks
from accel_rl.distributed.collective import Collective
from accel_rl.distributed.gradient_sync import GradientSync
from accel_rl.distributed.guarded_step import GuardedStep
from accel_rl.distributed.process_group import backend, process_group
from accel_rl.distributed.shared_reduce import SharedMemoryMean
from accel_rl.optim.flat import FlatParameters
from accel_rl.runners.ranks.context import SamplesAndLearns
from accel_rl.runners.ranks.shared_counters import share
from accel_rl.samplers.episodes import EpisodeTracker
from accel_rl.system.errors import RunError

SAVE_S = 1800.0  # a checkpoint with a large replay on a slow disk
LOOK_S = 1.0


class SyncContext(SamplesAndLearns):
    """The `RankContext` of a rank in torch's default process group.

    store: the store through which the group was formed; it is also used for waits longer than a collective's timeout.
    shared: file descriptor of a shared memory for gradients, if all ranks are on this machine.
    """

    def __init__(self, store: Any, timeout_s: float, hash_interval: int, shared: int | None = None):
        self.communicator = Collective(store)
        self.rank, self.size = self.communicator.rank, self.communicator.size
        self._store, self._timeout_s, self._hash_interval, self.shared = store, timeout_s, hash_interval, shared
        self._turns = 0  # waits so far: the same on every rank
        self._beaten = 0.0

    @property
    def captures_updates(self) -> bool:
        """Only NCCL's collectives run on the GPU; gloo's go through the host."""
        return self.communicator.on_gpu

    def gradient_sync(self, flat: FlatParameters, algo: Algorithm) -> GradientSync:
        guarded = GuardedStep(flat, algo.build_optimizer(len(flat.data)), algo.config.max_grad_norm)
        shared, self.shared = self.shared, None  # it holds the gradients of one learner
        if shared is not None and flat.data.device.type == "cpu":
            mean: GradientMean = SharedMemoryMean(flat, self.communicator, shared, self._timeout_s)
        else:
            mean = CollectiveMean(flat, self.communicator)
        return AllReduce(guarded, mean, self._hash_interval)

    def agent(self, agent: Any, gradient_sync: GradientSync) -> Any:
        return agent

    def opened(self, gradient_sync: GradientSync, env_steps: int) -> None:
        """Check that all ranks begin with the same network and env steps. RunError."""
        compare_ranks(gradient_sync.flat, self.communicator, 0, with_untrained=True)
        steps = self.communicator.gather(env_steps)
        if len(set(steps)) > 1:
            raise RunError(f"the ranks' checkpoints are of {steps} env steps")

    def clock(self, env_steps: int, taken: int, episodes: EpisodeTracker, updates: int) -> int:
        return env_steps + self.communicator.count(taken).of_run

    def stops(self, asked: bool) -> bool:
        return bool(self.communicator.all_reduce_max(torch.tensor(int(asked))))

    def agreed(self, done: bool) -> bool:
        self._turns += 1
        key = f"outcome/{self._turns}"
        if self.rank == 0:
            self._store.set(key, str(int(done)))
            return done
        return bool(int(self._await(key, "rank 0", self._timeout_s, self._beats)))

    def beat(self) -> None:
        now = time.monotonic()
        if now - self._beaten > LOOK_S:
            self._beaten = now
            self._store.add("beats", 1)

    def _beats(self) -> int:
        return int(self._store.add("beats", 0))

    def report(self, episodes: EpisodeTracker, updates: int) -> tuple[list[tuple[float, int]], int, int]:
        n = share(episodes.recent.maxlen or 0, self.size)
        found = self.communicator.gather((list(episodes.recent)[-n:], episodes.count))
        return [e for recent, _ in found for e in recent], sum(n for _, n in found), updates

    @contextmanager
    def saving(self) -> Iterator[None]:
        """Context in which this rank writes its part of a checkpoint.

        Rank 0 writes last: if its part exists, all parts exist.
        """
        self._turns += 1
        part, whole = f"part/{self._turns}/", f"whole/{self._turns}"
        if self.rank:
            yield
            self._store.set(f"{part}{self.rank}", "1")
            self._await(whole, "rank 0", SAVE_S)
            return
        for r in range(1, self.size):
            self._await(f"{part}{r}", f"rank {r}", SAVE_S)
        yield
        self._store.set(whole, "1")

    def _await(self, key: str, awaited: str, timeout_s: float, beats: Callable[[], int] = lambda: 0) -> str:
        """Wait for a key of the store and return its value. RunError after timeout_s without a change of `beats`."""
        waited, looked, last = 0.0, time.monotonic(), -1
        while True:
            try:
                if self._store.check([key]):
                    return self._store.get(key).decode()
                now = beats()
            except RuntimeError as e:  # the store is gone
                raise RunError(f"rank {self.rank}: the ranks' store is gone ({' '.join(str(e).split())[:200]})") from e
            at = time.monotonic()
            waited, looked = (
                waited + min(at - looked, LOOK_S),
                at,
            )  # time while stopped does not count
            if now != last:
                waited, last = 0.0, now
            if waited > timeout_s:
                raise RunError(f"rank {self.rank}: no answer from {awaited} within {timeout_s:g} s")
            time.sleep(0.01)


@contextmanager
def join_ranks(
    config: Resolved,
    device: str,
    store: Any,
    rank: int,
    size: int,
    local_ranks: int,
    shared: int | None = None,
) -> Iterator[SyncContext]:
    """Form the process group and yield this rank's context. RunError.

    device: of this rank. local_ranks: number of ranks on this machine. shared: see `SyncContext`.
    """
    g = config.distributed
    gpus = len(set(g.gpu_list)) or 1  # without --gpus, all ranks of a machine use --device
    name = backend(device, gpus, local_ranks)
    with process_group(store, rank, size, name, device, g.timeout_s):
        yield SyncContext(store, g.timeout_s, g.hash_interval, shared)
