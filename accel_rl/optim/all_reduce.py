"""Synchronous ranks: one collective a gradient, the same rule everywhere (Stooke & Abbeel 2018, section 4.2)."""

import hashlib
import time
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from accel_rl.errors import RunError
from accel_rl.optim.exchange import Local
from accel_rl.optim.flat import FlatParameters, clip_by_norm_
from accel_rl.optim.rules import Rule


class Collective:
    """The ranks of torch's default process group, as `Peers`: gloo for the host's numbers, and for gradients whatever
    the group has for their device. RunError where a rank is gone or does not answer in the group's time."""

    def __init__(self) -> None:
        self.rank, self.size = dist.get_rank(), dist.get_world_size()

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
        with _Named(self.rank, "a list"):
            dist.all_gather_object(found, x)
        return found

    def _reduce(self, x: Tensor, op: Any) -> Tensor:
        with _Named(self.rank, f"{x.numel()} numbers"):
            dist.all_reduce(x, op)
        return x


class _Named:
    """What a collective's failure means, in one line."""

    def __init__(self, rank: int, what: str):
        self.rank, self.what = rank, what

    def __enter__(self) -> None: ...

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        if isinstance(error, RuntimeError) and not isinstance(error, RunError):
            why = " ".join(str(error).split())[:300]
            raise RunError(
                f"rank {self.rank}: another rank is gone or hangs; {self.what} were not exchanged ({why})"
            ) from error


class AllReduce(Local):
    """The mean gradient of all ranks, clipped after the mean; every rank then applies the same rule to the same
    numbers, so that parameters stay identical: a hash is compared now and then.

    Ranks whose batches hold other numbers of valid samples count by them. Gradient, samples and loss go in one
    collective, and a number that is not finite is seen by all ranks at once.
    """

    def __init__(
        self, flat: FlatParameters, rule: Rule, max_norm: float | None, peers: Collective, check_interval: int = 100
    ):
        """check_interval: updates between two comparisons; 0: never."""
        super().__init__(flat, rule, max_norm)
        self.peers, self.check_interval = peers, check_interval
        self._message = torch.zeros(len(flat.grad) + 2, device=flat.grad.device)
        self._updates = 0
        self.times = {"exchange_s": 0.0}

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
        """The gradient and the loss [] become the means of all ranks -> (norm before clipping [], loss []). Nothing
        here waits for the device."""
        message, P = self._message, len(self.flat.grad)
        torch.mul(self.flat.grad, samples, out=message[:P])
        message[P], message[P + 1] = samples, loss * samples
        self.peers.sum_(message)
        torch.div(message[:P], message[P], out=self.flat.grad)
        return clip_by_norm_(self.flat.grad, self.max_norm), message[P + 1] / message[P]

    def check(self) -> None:
        """RunError, naming them, where ranks' parameters differ in a bit."""
        digests = self.peers.gather(digest(self.flat.data))
        if len(set(digests)) > 1:
            most = max(set(digests), key=digests.count)
            wrong = [r for r, d in enumerate(digests) if d != most]
            raise RunError(f"after {self._updates} updates the parameters of rank {wrong} differ from the others'")


def digest(data: Tensor) -> str:
    """Of every bit of data [P]."""
    return hashlib.sha256(data.detach().cpu().numpy().tobytes()).hexdigest()[:16]
