"""Synchronous ranks: one collective a gradient, the same optimizer step on all (Stooke & Abbeel 2018, section 4.2)."""

import hashlib
import time
from collections.abc import Callable

import torch
from torch import Tensor

from accel_rl.distributed.collective import Collective
from accel_rl.distributed.gradient_sync import Local
from accel_rl.optim.flat import FlatParameters, clip_by_norm_
from accel_rl.optim.optimizer import Optimizer
from accel_rl.system.errors import RunError

WIDE = 1 << 16  # parameters of a layer whose sum runs in the background of the rest of backward


class AllReduce(Local):
    """The mean gradient of all ranks, clipped after the mean; every rank then makes the same step from the same
    numbers, so that parameters stay identical: a hash is compared now and then.

    Ranks whose batches hold other numbers of valid samples count by them. Gradient, samples and loss go in one
    collective, and a number that is not finite is seen by all ranks at once. On CPUs a layer that holds most parameters
    goes ahead, while the gradients of the layers before it are still computed:

        backward  | heads | wide layer | convolutions ....... |
        sockets                        | wide layer ..... | the rest |
    """

    def __init__(
        self,
        flat: FlatParameters,
        optimizer: Optimizer,
        max_norm: float | None,
        communicator: Collective,
        check_interval: int = 100,
    ):
        """check_interval: updates between two comparisons; 0: never."""
        super().__init__(flat, optimizer, max_norm)
        self.communicator, self.check_interval = communicator, check_interval
        self._updates = 0
        self.times = {"sync_s": 0.0}
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
        """Called when the wide layer's gradient is complete: start its sum."""
        if not self._computing:
            return
        view: Tensor = p.flat_grad  # type: ignore[attr-defined]
        assert p.grad is not None
        if p.grad.data_ptr() != view.data_ptr():
            view.copy_(p.grad)
            p.grad = view
        self._finish = self.communicator.begin_sum(view)

    def step(self, learning_rate: float, loss: Tensor, samples: Tensor | float = 1.0) -> Tensor:
        began = time.monotonic()
        norm, loss = self.reduce(loss, samples)
        self.times["sync_s"] += time.monotonic() - began
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
            self.communicator.all_reduce_sum(message)
        else:
            part = self.flat.slices[self._ahead]  # type: ignore[index]
            rest = torch.cat([message[: part.start], message[part.stop :]])
            self.communicator.all_reduce_sum(rest)
            message[: part.start], message[part.stop :] = rest[: part.start], rest[part.start :]
            self._finish()
            self._finish = None
        return clip_by_norm_(self.flat.grad, self.max_norm, message[-2]), message[-1] / message[-2]

    def check(self) -> None:
        """Raise RunError, naming the ranks, if their parameters differ in a bit."""
        digests = self.communicator.gather(digest(self.flat.data))
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
    """Hash every bit of data [P]."""
    return hashlib.sha256(data.detach().cpu().numpy().tobytes()).hexdigest()[:16]
