"""Synchronous ranks: one all-reduce per gradient, then the same optimizer step on every rank.

Source: Stooke & Abbeel 2018, section 4.2.
"""

import hashlib
import time
from collections.abc import Callable

import torch
from torch import Tensor

from accel_rl.distributed.collective import Collective
from accel_rl.distributed.gradient_sync import Local
from accel_rl.optim.flat import FlatParameters, clip_by_norm_
from accel_rl.optim.optimizer import Optimizer, Rate
from accel_rl.system.errors import RunError

WIDE = 1 << 16  # smallest number of parameters of a layer that is reduced while backward continues


class AllReduce(Local):
    """Averages the gradients of all ranks and clips the mean. Every rank then takes the same step from the same
    numbers, so parameters stay identical. The ranks compare a hash of them every `check_interval` updates, and on GPUs
    at every row of metrics.

    Each rank is weighted by its number of valid samples. Gradient, number of samples and loss share one collective, so
    that all ranks see a non-finite number in the same update. On CPUs, if one layer holds most parameters, its
    all-reduce begins while backward still computes the gradients of the layers before it:

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
        """check_interval: number of updates between two comparisons of the parameters; 0: never."""
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
        """Start the all-reduce of the wide layer. Called when its gradient is complete."""
        if not self._computing:
            return
        view: Tensor = p.flat_grad  # type: ignore[attr-defined]
        assert p.grad is not None
        if p.grad.data_ptr() != view.data_ptr():
            view.copy_(p.grad)
            p.grad = view
        self._finish = self.communicator.begin_sum(view)

    def step(self, learning_rate: Rate, loss: Tensor, samples: Tensor | float = 1.0) -> Tensor:
        began = time.monotonic()
        norm, loss = self.reduce(loss, samples)
        self.times["sync_s"] += time.monotonic() - began
        self._step(learning_rate, norm + loss)
        self._updates += 1
        if self.check_interval and self._updates % self.check_interval == 0 and self.flat.data.is_cpu:
            self.check()
        return norm

    def verify(self) -> None:
        """Compare the parameters of GPUs; those of CPUs are compared every `check_interval` updates. RunError."""
        if self.check_interval and not self.flat.data.is_cpu:
            self.check()

    def reduce(self, loss: Tensor, samples: Tensor | float = 1.0) -> tuple[Tensor, Tensor]:
        """Average the gradient that `backward` computed and the loss [] over all ranks, and clip the gradient.

        Returns (gradient norm before clipping [], mean loss []). Does not synchronise a GPU.
        """
        message = self.flat.message
        # a number written by an index is copied from pageable memory, which a CUDA graph cannot capture
        message[-1].copy_(loss * samples)
        if isinstance(samples, Tensor):
            message[-2].copy_(samples)
        else:
            message[-2].fill_(samples)
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

    def check(self, whole: bool = False) -> None:
        """Raise RunError, naming the ranks, if the parameters of all ranks are not bitwise identical.

        whole: compare frozen parameters and buffers, too. During a phase each rank's buffers follow its own samples.
        """
        digests = self.communicator.gather(
            [digest(x) for x in (self.flat.data, *(self.flat.untrained() if whole else ()))]
        )
        if any(d != digests[0] for d in digests):
            most = max(digests, key=digests.count)
            wrong = [r for r, d in enumerate(digests) if d != most]
            raise RunError(f"after {self._updates} updates the parameters of rank {wrong} differ from the others'")


def _wide(flat: FlatParameters) -> str | None:
    """Return the name of the tensor that holds more than half of all parameters, and at least WIDE; else None.

    None on a GPU: a collective is part of the update's CUDA graph and takes no core's time.
    """
    name = max(flat.slices, key=lambda name: len(flat.data[flat.slices[name]]))
    n = len(flat.data[flat.slices[name]])
    return name if flat.data.device.type == "cpu" and n >= WIDE and 2 * n > len(flat.data) else None


def digest(data: Tensor) -> str:
    """Hash every bit of data [...]."""
    whole = data.detach().cpu().contiguous().reshape(-1)
    return hashlib.sha256(whole.view(torch.uint8).numpy().tobytes()).hexdigest()[:16]
