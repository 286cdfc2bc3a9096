"""Asynchronous ranks apply their gradients to central parameters, one chunk at a time. Each chunk has its own lock.

In the algorithm of Stooke & Abbeel (2018, section 4.3), a rank first computes and clips the gradient. For each chunk,
beginning with chunks that no other rank has locked, the rank then pulls the parameters and the optimizer state, steps
the optimizer on its own device, and writes the new parameters and state back. After an update, the rank's parameters
equal the central parameters.
"""

import time
from collections.abc import Callable, Generator
from contextlib import closing
from typing import Any

import torch
from torch import Tensor

from accel_rl.distributed.central import Central, chunks
from accel_rl.distributed.chunk_transfer import ChunkTransfer
from accel_rl.distributed.gradient_sync import GradientSync
from accel_rl.distributed.guarded_step import GuardedStep
from accel_rl.optim.flat import FlatParameters, clip_by_norm_
from accel_rl.optim.optimizer import Optimizer, Rate

LOCK_S = 60.0  # Time limit for acquiring a lock, which is usually held for a millisecond


class LockedChunks(GradientSync):
    """Applies gradients to the central parameters, one locked chunk at a time. `connect` must be called
    before the first update."""

    def __init__(
        self,
        flat: FlatParameters,
        build_optimizer: Callable[[int], Optimizer],
        max_norm: float | None,
        k: int,
        rank: int = 0,
    ):
        """`build_optimizer(n)` builds an optimizer of n parameters, and is called for each chunk. The parameters are
        divided into `k` chunks. The ranks begin with different chunks, so rank `rank` begins at chunk `rank` modulo
        `k`."""
        self.parts = chunks(len(flat.data), k)
        self.optimizers = [build_optimizer(p.stop - p.start) for p in self.parts]
        super().__init__(GuardedStep(flat, EachChunk(self), max_norm))
        self.times |= {"sync_s": 0.0, "lock_wait_s": 0.0}
        self._transfer: ChunkTransfer | None = None  # Copies chunks for a learner on a GPU
        self._rank, self._first = rank, rank % len(self.parts)
        # During the warmup, only rank 0 makes updates.
        self.warmup_updates = 0
        self._parameters = [-1] * len(self.parts)  # The version of each chunk in this rank's parameters
        self._states = [-1] * len(self.parts)
        self.refreshed = 0  # Number of pulls of the parameters.
        # `beat` is called before each update, and before each inference call of a `PullingAgent`.
        self.beat: Callable[[], None] = lambda: None

    # -- parameters ------------------------------------------------------------

    def states(self) -> list[dict[str, Any]]:
        """The states of the chunks' optimizers in this rank."""
        return [optimizer.state_dict() for optimizer in self.optimizers]

    def connect(self, central: Central, publish: bool) -> None:
        """Connect to the central parameters. With `publish`, write this rank's parameters and optimizer state to
        `central`. Without `publish`, pull the central parameters."""
        self.central = central
        if not self.flat.data.is_cpu:
            self._transfer = ChunkTransfer(central, self.flat.data, self.parts, self.optimizers)
        if publish:
            for k in range(len(self.parts)):
                with central.held(k, LOCK_S):
                    self._write(k)
        else:
            self.pull_now()

    def pull(self) -> None:
        self.pull_now()

    def pull_now(self) -> bool:
        """Copy the chunks of the central parameters that other ranks have changed, and return whether any chunk has
        changed."""
        changed = False
        for k in range(len(self.parts)):
            if self.central.version(k) != self._parameters[k]:
                with self.central.held(k, LOCK_S):
                    self._read_parameters(k)
                changed = True
        self.refreshed += 1
        return changed

    def step(self, learning_rate: Rate, loss: Tensor, samples: Tensor | float = 1.0) -> Tensor:
        self.beat()
        if self._is_warming_up:
            return clip_by_norm_(self.flat.grad, self.guarded.max_norm)
        return self.guarded(learning_rate, loss)

    @property
    def _is_warming_up(self) -> bool:
        """Whether this rank's gradients are dropped, because only rank 0 makes the first updates."""
        central_updates = map(self.central.updates, range(len(self.parts)))
        return bool(self._rank and self.warmup_updates and min(central_updates) < self.warmup_updates)

    def step_chunks(self, learning_rate: Rate, finite: Tensor | None = None) -> None:
        """For each chunk, step the optimizer, and write the result to the central parameters."""
        began = time.monotonic()
        with closing(self._free()) as free:
            for k in free:
                self._read_parameters(k, is_held=True)
                self._read_state(k, is_held=True)
                optimizer = self.optimizers[k]
                data = self.flat.data[self.parts[k]]
                grad = self.flat.grad[self.parts[k]]
                optimizer.step(data, grad, learning_rate, finite)
                if self._transfer is None:
                    self._write(k, updates=1)
                elif not self._push(k, 1, finite):
                    break
        self.refreshed += 1
        self.times["sync_s"] += time.monotonic() - began

    def _free(self) -> Generator[int]:
        """Yield the index of each chunk once, while this rank holds the chunk's lock, beginning with chunks that no
        other rank has locked."""
        central, waiting = self.central, [(self._first + i) % len(self.parts) for i in range(len(self.parts))]
        while waiting:
            k = next((k for k in waiting if central.locks.try_acquire(k)), None)
            if k is None:
                k, began = waiting[0], time.monotonic()
                central.locks.acquire(k, LOCK_S)
                self.times["lock_wait_s"] += time.monotonic() - began
            waiting.remove(k)
            try:
                yield k
            finally:
                central.locks.release(k)

    def _read_parameters(self, k: int, is_held: bool = False) -> None:
        """Copy chunk k of the central parameters to this rank if its version is new. The method `ChunkTransfer.pull`
        explains `is_held`."""
        if (version := self.central.version(k)) != self._parameters[k]:
            if self._transfer is None:
                self.flat.data[self.parts[k]].copy_(self.central.read(k)[0])
            else:
                self._transfer.pull(k, is_held=is_held)
            self._parameters[k] = version

    def _read_state(self, k: int, is_held: bool = False) -> None:
        if (version := self.central.version(k)) != self._states[k]:
            if self._transfer is None:
                self.optimizers[k].load_state_dict(self.central.read(k)[1])
            else:
                self._transfer.pull(k, parameters=False, state=True, is_held=is_held)
            self._states[k] = version

    def forget(self) -> None:
        """Make the next pull fetch every chunk, as if other ranks had pushed all chunks."""
        self._parameters, self._states = [-1] * len(self.parts), [-1] * len(self.parts)

    def _write(self, k: int, updates: int = 0) -> None:
        """Write chunk k of this rank to the central parameters. `updates` is the number of new updates in the chunk."""
        self.central.publish(k, self.flat.data[self.parts[k]], self.optimizers[k].state_dict(), updates)
        self._parameters[k] = self._states[k] = self.central.version(k)

    def _push(self, k: int, updates: int, is_finite: Tensor | None = None) -> bool:
        """Write chunk k from a GPU to the central parameters if the update is finite. Return whether the chunk was
        written."""
        assert self._transfer is not None
        is_written = self._transfer.push(k, updates, is_finite)
        if is_written:
            self._parameters[k] = self._states[k] = self.central.version(k)
        return is_written

    # -- checkpoints ------------------------------------------------------------

    def state_dict(self) -> dict[str, Any]:
        """The state of the central parameters. The optimizer's step count becomes a list, with one number per
        chunk."""
        for k in range(len(self.parts)):
            with self.central.held(k, LOCK_S):
                self._read_parameters(k)
                self._read_state(k)
        states = self.states()
        optimizer = {
            name: torch.cat([s[name] for s in states]) if isinstance(value, Tensor) else [s[name] for s in states]
            for name, value in states[0].items()
        }
        return {"parameters": self.flat.data, "optimizer": optimizer, **self.skips.state_dict()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Load a state into this rank. The central parameters change only when `connect` writes the loaded state.
        Raises ValueError if the state has another number of chunks than this run."""
        self.flat.data.copy_(state["parameters"])
        for k, (part, optimizer) in enumerate(zip(self.parts, self.optimizers, strict=True)):
            mine = {}
            for name, value in state["optimizer"].items():
                if not isinstance(value, Tensor) and len(value) != len(self.parts):
                    raise ValueError(f"the checkpoint has {len(value)} chunks, the run {len(self.parts)}")
                mine[name] = value[part] if isinstance(value, Tensor) else value[k]
            optimizer.load_state_dict(mine)
        self.skips.load_state_dict(state)


class EachChunk:
    """An optimizer that steps the optimizers of all chunks."""

    def __init__(self, chunks: LockedChunks):
        self._chunks = chunks

    def step(self, data: Tensor, grad: Tensor, learning_rate: Rate, finite: Tensor | None = None) -> None:
        self._chunks.step_chunks(learning_rate, finite)

    def state_dict(self) -> dict[str, Any]:
        return self._chunks.state_dict()["optimizer"]

    def load_state_dict(self, state: dict[str, Any]) -> None:
        raise NotImplementedError("LockedChunks loads the states of its chunks")
