r"""The central parameters and optimizer state of asynchronous ranks are stored in shared memory, in chunks. Each chunk
is always consistent, even if a rank dies while it writes the chunk.

    chunk k:  lock | word | copy 0: parameters, optimizer state, step count | copy 1: the same
                      \-- version * 2 + index of the current copy

A writer fills the second copy of a chunk, and then publishes this copy by storing one 64-bit word. If the writer dies,
the chunk's current copy is still complete.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from torch import Tensor

from accel_rl.data.shared_memory import Layout, SharedArrays
from accel_rl.distributed.robust_lock import LOCK_BYTES, RobustLocks
from accel_rl.optim.optimizer import ALIGNMENT


def chunks(size: int, k: int) -> list[slice]:
    """Divide `size` parameters into at most k nearly equal slices, which begin at multiples of ALIGNMENT."""
    cuts = sorted({0, size, *(min(size, round(size * i / k / ALIGNMENT) * ALIGNMENT) for i in range(1, k))})
    return [slice(a, b) for a, b in pairwise(cuts)]


@dataclass(slots=True)
class _Copy:
    tensors: dict[str, Tensor]  # Views of the shared memory: "parameters" and the optimizer's state vectors
    numbers: dict[str, np.ndarray]  # Scalars of the optimizer's state, as arrays [1] float64


class Central:
    """Gives a rank access to the chunks of the central parameters and of the optimizer state
    (`Optimizer.state_dict`) in shared memory."""

    def __init__(self, parts: list[slice], states: list[dict[str, Any]], fd: int, *, create: bool):
        """`fd` is the descriptor of an open file that all ranks share. With `create`, set the file's size, and
        initialise its locks. Exactly one process must pass `create`, before other processes use the file."""
        self.parts = parts
        layout: Layout = {"locks": ("uint8", (len(parts), LOCK_BYTES)), "words": ("uint64", (len(parts), 8))}
        for k, (part, state) in enumerate(zip(parts, states, strict=True)):
            for copy in (0, 1):
                for name in ("parameters", *(n for n, v in state.items() if isinstance(v, Tensor))):
                    layout[f"{k}/{copy}/{name}"] = ("float32", (part.stop - part.start,))
                for name in (n for n, v in state.items() if not isinstance(v, Tensor)):
                    layout[f"{k}/{copy}/#{name}"] = ("float64", (1,))
        self._memory = SharedArrays.over(layout, fd) if create else SharedArrays.attach(layout, fd)
        self._words = self._memory["words"]
        self._copies = [[self._view(k, copy) for copy in (0, 1)] for k in range(len(parts))]
        self.locks = RobustLocks(self._memory["locks"], create)

    def _view(self, k: int, copy: int) -> _Copy:
        prefix, names = f"{k}/{copy}/", [n for n in self._memory.layout if n.startswith(f"{k}/{copy}/")]
        bare = {n.removeprefix(prefix): self._memory[n] for n in names}
        return _Copy(
            {n: torch.from_numpy(a) for n, a in bare.items() if n[0] != "#"},
            {n[1:]: a for n, a in bare.items() if n[0] == "#"},
        )

    def __len__(self) -> int:
        return len(self.parts)

    def version(self, k: int) -> int:
        """The version number of chunk k. The caller does not need to hold the chunk's lock."""
        return int(self._words[k, 0]) >> 1

    def updates(self, k: int) -> int:
        """The number of updates of chunk k. The caller does not need to hold the chunk's lock. One write of a
        chunk can contain several updates."""
        return int(self._words[k, 1])

    @contextmanager
    def held(self, k: int, timeout_s: float) -> Iterator[None]:
        """A context manager that holds the lock of chunk k. Raises RunError if the lock is not free after
        timeout_s."""
        self.locks.acquire(k, timeout_s)
        try:
            yield
        finally:
            self.locks.release(k)

    def read(self, k: int) -> tuple[Tensor, dict[str, Any]]:
        """Views of the current parameters [n] and optimizer state of chunk k. The caller must hold the chunk's
        lock."""
        copy = self._copies[k][int(self._words[k, 0]) & 1]
        tensors = dict(copy.tensors)
        return tensors.pop("parameters"), {**tensors, **{n: float(v[0]) for n, v in copy.numbers.items()}}

    def publish(self, k: int, parameters: Tensor, state: dict[str, Any], updates: int = 0) -> None:
        """Write the next version of chunk k, with `updates` new updates. The caller must hold the chunk's lock."""
        spare = self.spare(k)
        spare["parameters"].copy_(parameters)
        numbers = {}
        for name, value in state.items():
            if isinstance(value, Tensor):
                spare[name].copy_(value)
            else:
                numbers[name] = value
        self.publish_spare(k, numbers, updates)

    def spare(self, k: int) -> dict[str, Tensor]:
        """Views {name: [n]} of the parameters ("parameters") and the optimizer's state vectors in the copy of chunk k
        that is not current. The next version is written to this copy. The caller must hold the chunk's lock."""
        return self._copies[k][int(self._words[k, 0]) & 1 ^ 1].tensors

    def publish_spare(self, k: int, numbers: dict[str, float], updates: int = 0) -> None:
        """Make the spare copy of chunk k the current version. The caller must have written the tensors of the spare
        copy. `numbers` maps the names of the scalars in the optimizer's state to their values. `updates` is the number
        of new updates."""
        word = int(self._words[k, 0])
        spare, version = (word & 1) ^ 1, (word >> 1) + 1
        copy = self._copies[k][spare]
        for name, value in numbers.items():
            copy.numbers[name][0] = value
        self._words[k, 0] = version << 1 | spare  # One aligned store publishes the new version of the chunk.
        self._words[k, 1] += np.uint64(updates)

    def tensors(self) -> list[Tensor]:
        """Views of all parameters and optimizer state in the shared memory."""
        return [x for copies in self._copies for copy in copies for x in copy.tensors.values()]
