"""Simulates asynchronous ranks, which push gradients to central parameters, and synchronous ranks, which sum gradients.

The central parameters must be the result of all pushes in some order, with each push counted once.
If a rank is killed, every chunk of the central parameters must stay complete.
"""

import os
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor, nn

from accel_rl.distributed import central, locked_chunk, multi_step_adam, shared_reduce
from accel_rl.distributed.locked_chunk import LockedChunks
from accel_rl.distributed.multi_step_adam import MultiStepAdam
from accel_rl.optim.flat import FlatParameters
from accel_rl.optim.optimizer import ALIGNMENT
from accel_rl.optim.optimizers import Adam, RMSProp
from accel_rl.processes import process
from tests.distributed.checked_central import CheckedCentral, is_complete
from tests.schedules.system import System, replaced
from tests.schedules.world import Actor, View, World

LEARNING_RATE = 1e-2
_WEIGHTED_SUM = shared_reduce._weighted_sum
SIZE = 2 * ALIGNMENT
"""Number of parameters, which are divided into one or two chunks."""


def gradient(rank: int, update: int, size: int) -> Tensor:
    """Return the gradient [size] of a rank's update."""
    return torch.randn(size, generator=torch.Generator().manual_seed(1_000 * rank + update))


class SharedTensor(Tensor):
    """A tensor in shared memory. Copies are made in two halves, between which other simulated processes may run."""

    world: World
    label: Any

    @classmethod
    def of(cls, tensor: Tensor, world: World, label: Any) -> "SharedTensor":
        result = tensor.as_subclass(cls)
        result.world, result.label = world, label
        return result

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        with torch._C.DisableTorchFunctionSubclass():
            if func is not Tensor.copy_:
                return func(*args, **(kwargs or {}))
            to, source = args[0], args[1]
            world = (to if isinstance(to, SharedTensor) else source).world
            if isinstance(source, SharedTensor):
                world.check_read(source.label)
            half = len(to) // 2
            func(to[:half], source[:half])
            world.point()
            func(to[half:], source[half:])
            if isinstance(to, SharedTensor):
                world.written(to.label)
            return to


class SimulatedLocks:
    """Simulated robust mutexes, which are released if the process that holds them is killed."""

    def __init__(self, world: World, n: int) -> None:
        self._world = world
        self._owners: list[Actor | None] = [None] * n
        self._views: list[View] = [{} for _ in range(n)]

    def _is_free(self, i: int) -> bool:
        owner = self._owners[i]
        return owner is None or owner.is_killed

    def try_acquire(self, i: int) -> bool:
        self._world.point()
        if not self._is_free(i):
            return False
        self._world.receive(self._views[i])
        if (owner := self._owners[i]) is not None:  # All stores of the killed process are visible.
            self._world.receive(owner.view)
        self._owners[i] = self._world.current
        return True

    def acquire(self, i: int, timeout_s: float) -> None:
        while not self.try_acquire(i):
            if not self._world.block(lambda: self._is_free(i), timeout_s):
                raise AssertionError(f"the lock of chunk {i} was not free within {timeout_s:g} s")

    def release(self, i: int) -> None:
        if self._world.is_over:
            return
        self._world.point()
        self._world.pass_on(self._views[i])
        self._owners[i] = None


class Words:
    """The integers that `Central` shares for each chunk: version, index of the current copy, and number of updates."""

    def __init__(self, world: World, on_publish: Callable[[int, int], None]) -> None:
        self._world, self._on_publish = world, on_publish

    def __getitem__(self, index: tuple[int, int]) -> int:
        return self._world.load(("word", *index))

    def __setitem__(self, index: tuple[int, int], value: int) -> None:
        self._world.store(("word", *index), int(value))
        if index[1] == 0:
            self._on_publish(index[0], int(value))


class AsynchronousRanks:
    """Simulates asynchronous ranks, some of which are killed, that share central parameters."""

    def __init__(self, world: World, faults: int) -> None:
        self.world, self.system, self._faults = world, System(world), faults
        rng = world.rng
        self.ranks, self.updates, self.k = rng.choice((2, 3)), rng.randint(1, 4), rng.choice((1, 2))
        self.local_updates = rng.choice((1, 1, 2))
        self.build: Callable[[int], Any] = Adam if self.local_updates > 1 else rng.choice((Adam, _rmsprop))
        self.killed: set[int] = set()
        self.history: list[tuple[int, int, int, Tensor, bool]] = []
        """(chunk, rank, number of the rank's update, parameters) of each published version."""
        self._update: Counter[int] = Counter()
        self._rate = rng.choice((0.0, 0.003))
        world.on_point = self._maybe_kill
        self._actors: dict[int, Actor] = {}

    def main(self) -> None:
        """Run all ranks, and check the central parameters."""
        with self._simulated(), memory_file() as fd:
            self._fd = fd
            first = self._rank(0, create=True)
            for rank in range(1, self.ranks):
                actor = self.world.spawn(f"rank {rank}", lambda rank=rank: self._learn(self._rank(rank), rank))
                self._actors[rank] = actor
            self._learn(first, 0)
            actors = self._actors.values()
            self.world.block(lambda: all(a.is_over or a.is_killed for a in actors), 1e6)
            self.world.check(actors)
            for actor in actors:
                if not actor.is_over and not actor.is_killed:
                    raise AssertionError(f"{actor.name} waits for ever")
            self._check(first)

    def _rank(self, rank: int, create: bool = False) -> LockedChunks:
        flat = FlatParameters(_model())
        kind: Any = LockedChunks
        more = {}
        if self.local_updates > 1:
            kind, more = MultiStepAdam, {"local_updates": self.local_updates}
        sync = kind(flat, self.build, None, self.k, rank, **more)
        shared = CheckedCentral(sync.parts, sync.states(), self._fd, create=create)
        shared._words = Words(self.world, self._publish)
        shared.locks = self._locks
        for k, copies in enumerate(shared._copies):
            for i, copy in enumerate(copies):
                copy.tensors = {name: SharedTensor.of(x, self.world, (name, k, i)) for name, x in copy.tensors.items()}
        self._shared = shared
        sync.connect(shared, publish=create)
        return sync

    def _learn(self, sync: LockedChunks, rank: int) -> None:
        for i in range(self.updates):
            self._update[rank] = i + 1
            sync.pull()
            sync.flat.grad.copy_(gradient(rank, i + 1, len(sync.flat.grad)))
            sync.step(LEARNING_RATE, torch.zeros(()))
        if isinstance(sync, MultiStepAdam):
            sync.flush()

    def _publish(self, k: int, word: int) -> None:
        name = self.world.current.name
        rank = int(name.split()[1]) if name.startswith("rank ") else 0
        copy = self._shared._copies[k][word & 1]
        with torch._C.DisableTorchFunctionSubclass():
            parameters = copy.tensors["parameters"].as_subclass(Tensor).clone()
            complete = is_complete(copy, word >> 1)
        self.history.append((k, rank, self._update[rank], parameters, complete))

    def _check(self, sync: LockedChunks) -> None:
        for k, part in enumerate(sync.parts):
            self._locks.acquire(k, 1.0)
            versions = [entry for entry in self.history if entry[0] == k]
            if not all(is_complete for *_, is_complete in versions):
                raise AssertionError(f"chunk {k} was torn")
            pushes = [(rank, update) for _, rank, update, _, _ in versions[1:]]
            if len(set(pushes)) != len(pushes):
                raise AssertionError(f"chunk {k} has a push twice: {pushes}")
            n = -(-self.updates // self.local_updates)
            for rank in range(self.ranks):
                if rank not in self.killed and sum(r == rank for r, _ in pushes) != n:
                    raise AssertionError(f"chunk {k} lacks a push of rank {rank}: {pushes}")
            word = self.world.load(("word", k, 0))
            if word >> 1 != len(versions):
                raise AssertionError(f"chunk {k} has version {word >> 1} after {len(versions)} writes")
            if self.local_updates > 1:
                continue
            # The pushed gradients, applied in the order of versions, must give the central parameters.
            optimizer, data = self.build(part.stop - part.start), versions[0][3].clone()
            for _, rank, update, parameters, _ in versions[1:]:
                optimizer.step(data, gradient(rank, update, SIZE)[part], LEARNING_RATE)
                if not torch.equal(data, parameters):
                    raise AssertionError(f"chunk {k}: no order of the pushes gives its parameters")

    def _simulated(self) -> ExitStack:
        self._locks = SimulatedLocks(self.world, self.k)
        return replaced(
            (locked_chunk, "time", self.system.time),
            (multi_step_adam, "time", self.system.time),
            (central, "RobustLocks", lambda memory, create: self._locks),
        )

    def _maybe_kill(self) -> None:
        if self._faults <= 0 or self.world.rng.random() >= self._rate:
            return
        living = [r for r, a in self._actors.items() if not a.is_over and not a.is_killed]
        if living:
            victim = self.world.rng.choice(living)
            self._faults -= 1
            self.killed.add(victim)
            self.world.kill(self._actors[victim])


class Turns:
    """Replaces the shared array of turns [R, 1] in `SharedMemoryMean`."""

    def __init__(self, world: World, ranks: int) -> None:
        self._world, self._ranks = world, ranks

    def __len__(self) -> int:
        return self._ranks

    def __getitem__(self, index: tuple[Any, int]) -> Any:
        if isinstance(index[0], slice):
            return torch.tensor([self._world.load(("turn", r)) for r in range(self._ranks)])
        return self._world.load(("turn", index[0]))

    def __setitem__(self, index: tuple[int, int], value: int) -> None:
        self._world.store(("turn", index[0]), int(value))


class SynchronousRanks:
    """Simulates synchronous ranks, which sum gradients in shared memory. One rank may be killed."""

    def __init__(self, world: World, faults: int) -> None:
        self.world, self.system, self._faults = world, System(world), faults
        self.ranks, self.updates = world.rng.choice((2, 3, 4)), world.rng.randint(1, 5)
        self._rate = world.rng.choice((0.0, 0.002))
        self._actors: list[Actor] = []
        self.killed: set[int] = set()
        world.on_point = self._maybe_kill

    def main(self) -> None:
        """Run all ranks, and compare each mean gradient with a plain sum."""
        simulated = replaced(
            (shared_reduce, "time", self.system.time),
            (process, "time", self.system.time),
            (shared_reduce, "os", SimpleNamespace(sched_yield=self.world.point, getpid=os.getpid)),
            (shared_reduce, "Watch", lambda pids: None),
            (shared_reduce, "_weighted_sum", self._sum),
        )
        with memory_file() as fd, simulated:
            self._fd = fd
            means = [self._mean(rank) for rank in range(self.ranks)]
            self._actors = [
                self.world.spawn(f"rank {r}", lambda r=r, m=m: self._learn(r, m)) for r, m in enumerate(means)
            ]
            self.world.block(lambda: all(a.is_over or a.is_killed for a in self._actors), 1e6)
            for actor in self._actors:
                if actor.error is not None and not self.killed:
                    raise actor.error
                if not actor.is_over and not actor.is_killed:
                    raise AssertionError(f"{actor.name} waits for ever")
                if isinstance(actor.error, AssertionError):
                    raise actor.error

    def _mean(self, rank: int) -> shared_reduce.SharedMemoryMean:
        communicator: Any = SimpleNamespace(
            rank=rank, size=self.ranks, all_reduce_min=lambda n: n, gather=lambda pid: list(range(self.ranks)),
            watch=None, failed=lambda what, why: RuntimeError(why),
        )  # fmt: skip
        flat = FlatParameters(_model())
        mean = shared_reduce.SharedMemoryMean(flat, communicator, self._fd, timeout_s=5.0)
        communicator.watch = SimpleNamespace(gone=lambda: sorted(self.killed))
        mean._turns = Turns(self.world, self.ranks)  # type: ignore[assignment]
        if self.world.weak:
            mean._fence = self.world.fence
        return mean

    def _learn(self, rank: int, mean: shared_reduce.SharedMemoryMean) -> None:
        flat = mean._flat
        for i in range(self.updates):
            flat.grad.copy_(gradient(rank, i, len(flat.grad)))
            self.world.written(("part", rank))
            norm, _ = mean.reduce(torch.zeros(()), 1.0, None)
            for r in range(self.ranks):
                self.world.check_read(("sum", r))
            every = [gradient(r, i, len(flat.grad)) for r in range(self.ranks)]
            expected = torch.stack(every).mean(0)
            if not torch.allclose(flat.grad, expected, atol=1e-6) or not torch.isclose(norm, expected.norm()):
                raise AssertionError(f"the mean of update {i} on rank {rank} is wrong")

    def _sum(self, parts: list[Tensor], weights: list[float], out: Tensor) -> float:
        for r in range(self.ranks):
            self.world.check_read(("part", r))
        self.world.point()
        squares = _WEIGHTED_SUM(parts, weights, out)
        self.world.written(("sum", int(self.world.current.name.split()[1])))
        return squares

    def _maybe_kill(self) -> None:
        living = [r for r, a in enumerate(self._actors) if not a.is_over and not a.is_killed]
        if self._faults > 0 and living and self.world.rng.random() < self._rate:
            victim = self.world.rng.choice(living)
            self._faults = 0
            self.killed.add(victim)
            self.world.kill(self._actors[victim])


def _rmsprop(n: int) -> RMSProp:
    return RMSProp(n, 0.99, 1e-5, epsilon_inside=True)


def _model() -> nn.Module:
    model = nn.Linear(SIZE - 1, 1)
    with torch.no_grad():
        model.weight.copy_(gradient(99, 0, SIZE - 1))
        model.bias.zero_()
    return model


@contextmanager
def memory_file() -> Iterator[int]:
    """Return a context manager with the descriptor of an anonymous file in memory."""
    fd = os.memfd_create("schedules")
    try:
        yield fd
    finally:
        os.close(fd)
