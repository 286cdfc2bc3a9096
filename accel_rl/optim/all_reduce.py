"""Synchronous ranks: one collective a gradient, the same rule everywhere (Stooke & Abbeel 2018, section 4.2)."""

import hashlib
import time
import traceback
from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from accel_rl.errors import RunError
from accel_rl.optim.exchange import Local
from accel_rl.optim.flat import FlatParameters, clip_by_norm_
from accel_rl.optim.process_group import leave
from accel_rl.optim.rules import Rule
from accel_rl.optim.watch import Watch

FEW_RANKS = 8
WIDE = 1 << 16  # numbers of a layer for whose sum nobody should wait
SETTLE_S = 3.0  # all whom a failure leaves have noticed it


class Collective:
    """The ranks of torch's default process group, as `Peers`: gloo for the host's numbers, and for gradients whatever
    the group has for their device. RunError where a rank is gone or does not answer in the group's time."""

    def __init__(self, store: Any) -> None:
        """store: what the ranks have met through."""
        self.rank, self.size, self.store = dist.get_rank(), dist.get_world_size(), store
        self.watch = Watch({})  # of the others' processes, as far as they can be seen from here
        self._works: list[Any] = []  # in the background; who holds one holds the group's connections open

    def sum_(self, x: Tensor) -> Tensor:
        return self._reduce(x, dist.ReduceOp.SUM)

    def max_(self, x: Tensor) -> Tensor:
        return self._reduce(x, dist.ReduceOp.MAX)

    def count(self, env_steps: int) -> tuple[int, int]:
        total = int(self.sum_(torch.tensor(env_steps)))
        return total, total

    def least(self, n: int) -> int:
        return -int(self.max_(torch.tensor(-n)))

    def gather(self, x: Any) -> list[Any]:
        """Every rank's x (plain lists and numbers), by rank."""
        found: list[Any] = [None] * self.size
        with _Named(self, "a list"):
            dist.all_gather_object(found, x)
        return found

    def sum_few_(self, x: Tensor) -> Tensor:
        """sum_ of so little that it is quicker from each rank to each: no thread has to wake for another."""
        if self.size > FEW_RANKS:
            return self.sum_(x)
        with _Named(self, f"{x.numel()} numbers"):
            parts = self._everybodys(x)
        return x.copy_(sum(parts[1:], parts[0]))  # in one order: the same bits everywhere

    def _everybodys(self, x: Tensor) -> list[Tensor]:
        parts = [x if r == self.rank else torch.empty_like(x) for r in range(self.size)]
        others = [r for r in range(self.size) if r != self.rank]
        works = [dist.isend(x, r) for r in others] + [dist.irecv(parts[r], r) for r in others]
        for work in works:
            work.wait()  # type: ignore[union-attr]
        return parts

    def begin_sum(self, x: Tensor) -> Callable[[], None]:
        """sum_ in the background; the result is there when what is returned has been called."""
        with _Named(self, f"{x.numel()} numbers"):
            self._works.append(dist.all_reduce(x, async_op=True))

        def finish() -> None:
            with _Named(self, f"{x.numel()} numbers"):
                self._works.pop(0).wait()

        return finish

    def _reduce(self, x: Tensor, op: Any) -> Tensor:
        with _Named(self, f"{x.numel()} numbers"):
            dist.all_reduce(x, op)
        return x

    def failed(self, what: str, why: str) -> RunError:
        """What could not be exchanged, and what that means: whoever else is well says so in the store, too; the rest is
        named."""
        return RunError(f"{self._missing()}: {what} could not be exchanged (rank {self.rank}: {why})")

    def _missing(self) -> str:
        others = [r for r in range(self.size) if r != self.rank]
        self._works.clear()
        deadline = time.monotonic() + SETTLE_S
        try:
            self.store.set(f"well/{self.rank}", "1")
            leave()  # those who wait for this rank, and not for the one that is gone, then know as well
            while set(others) - set(self.watch.gone()) and time.monotonic() < deadline:
                others = [r for r in others if not self.store.check([f"well/{r}"])]
                time.sleep(0.02)
        except RuntimeError:
            return "another rank is gone or hangs, and so is the ranks' store"
        return f"rank {', '.join(map(str, others))} is gone or hangs" if others else "the ranks lost each other"


class _Named:
    """A collective's failure in one line."""

    def __init__(self, group: Collective, what: str):
        self.group, self.what = group, what

    def __enter__(self) -> None: ...

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        if isinstance(error, RuntimeError) and not isinstance(error, RunError):
            traceback.clear_frames(trace)  # they keep the group's connections open
            raise self.group.failed(self.what, " ".join(str(error).split())[:200]) from error


class AllReduce(Local):
    """The mean gradient of all ranks, clipped after the mean; every rank then applies the same rule to the same
    numbers, so that parameters stay identical: a hash is compared now and then.

    Ranks whose batches hold other numbers of valid samples count by them. Gradient, samples and loss go in one
    collective, and a number that is not finite is seen by all ranks at once. On CPUs a layer that holds most parameters
    goes ahead, while the gradients of the layers before it are still computed:

        backward  | heads | wide layer | convolutions ....... |
        sockets                        | wide layer ..... | the rest |
    """

    def __init__(
        self, flat: FlatParameters, rule: Rule, max_norm: float | None, peers: Collective, check_interval: int = 100
    ):
        """check_interval: updates between two comparisons; 0: never."""
        super().__init__(flat, rule, max_norm)
        self.peers, self.check_interval = peers, check_interval
        self._updates = 0
        self.times = {"exchange_s": 0.0}
        self._ahead = _wide(flat)
        self._computing = False
        self._finish: Callable[[], None] | None = None
        if self._ahead is not None:
            dict(flat.named)[self._ahead].register_post_accumulate_grad_hook(self._send_ahead)

    def backward(self, loss: Tensor, samples: Tensor | float = 1.0) -> None:
        self._computing = True
        super().backward(loss * samples)
        self._computing = False

    def _send_ahead(self, p: Tensor) -> None:
        """The wide layer's gradient is there."""
        if not self._computing:
            return
        view: Tensor = p.flat_grad  # type: ignore[attr-defined]
        assert p.grad is not None
        if p.grad.data_ptr() != view.data_ptr():
            view.copy_(p.grad)
            p.grad = view
        self._finish = self.peers.begin_sum(view)

    def apply(self, learning_rate: float, loss: Tensor, samples: Tensor | float = 1.0) -> Tensor:
        began = time.monotonic()
        norm, loss = self.reduce(loss, samples)
        self.times["exchange_s"] += time.monotonic() - began
        self._step(learning_rate, norm + loss)
        self._updates += 1
        if self.check_interval and self._updates % self.check_interval == 0:
            self.check()
        return norm

    def reduce(self, loss: Tensor, samples: Tensor | float = 1.0) -> tuple[Tensor, Tensor]:
        """The gradient, as `backward` has left it, and the loss [] become the means of all ranks -> (norm before
        clipping [], loss []). Nothing here waits for the device."""
        message = self.flat.message
        message[-2], message[-1] = samples, loss * samples
        if self._finish is None:
            self.peers.sum_(message)
        else:
            part = self.flat.slices[self._ahead]  # type: ignore[index]
            rest = torch.cat([message[: part.start], message[part.stop :]])
            self.peers.sum_few_(rest)
            message[: part.start], message[part.stop :] = rest[: part.start], rest[part.start :]
            self._finish()
            self._finish = None
        return clip_by_norm_(self.flat.grad, self.max_norm, message[-2]), message[-1] / message[-2]

    def check(self) -> None:
        """RunError, naming them, where ranks' parameters differ in a bit."""
        digests = self.peers.gather(digest(self.flat.data))
        if len(set(digests)) > 1:
            most = max(set(digests), key=digests.count)
            wrong = [r for r, d in enumerate(digests) if d != most]
            raise RunError(f"after {self._updates} updates the parameters of rank {wrong} differ from the others'")


def _wide(flat: FlatParameters) -> str | None:
    """The parameters, if there are such, that are most of all. Not on a GPU: a collective there is part of the update's
    graph, and takes no core's time."""
    name = max(flat.slices, key=lambda name: len(flat.data[flat.slices[name]]))
    n = len(flat.data[flat.slices[name]])
    return name if flat.data.device.type == "cpu" and n >= WIDE and 2 * n > len(flat.data) else None


def digest(data: Tensor) -> str:
    """Of every bit of data [P]."""
    return hashlib.sha256(data.detach().cpu().numpy().tobytes()).hexdigest()[:16]
