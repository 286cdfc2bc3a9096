"""Synchronous ranks average each gradient by an all-reduce, and make the same optimizer step (Stooke & Abbeel 2018,
section 4.2)."""

import hashlib
import time
from collections.abc import Callable
from typing import Protocol

import torch
from torch import Tensor

from accel_rl.distributed.collective import Collective
from accel_rl.distributed.gradient_sync import GradientSync
from accel_rl.distributed.guarded_step import GuardedStep
from accel_rl.optim.flat import FlatParameters, clip_by_norm_
from accel_rl.optim.optimizer import Rate
from accel_rl.text.errors import RunError

WIDE = 1 << 16  # A layer is all-reduced during the backward pass only if it has at least WIDE parameters.


class GradientMean(Protocol):
    """Averages the gradients of all ranks. The implementations of `GradientMean` are `CollectiveMean`,
    and `SharedMemoryMean` for CPU ranks on one machine."""

    communicator: Collective

    def backward(self, loss: Tensor, samples: Tensor | float) -> None:
        """Compute this rank's gradient of a loss [], which is the mean over `samples` [] samples."""

    def reduce(self, loss: Tensor, samples: Tensor | float, max_norm: float | None) -> tuple[Tensor, Tensor]:
        """Average the gradients and the loss [] over all ranks, and clip the mean gradient in `flat.grad`. Return
        (gradient norm before clipping [], mean loss []). `reduce` does not synchronize with a GPU."""


class AllReduce(GradientSync):
    """Averages the gradients of all ranks, so that every rank makes the same update, and parameters stay
    identical. To detect differences, the ranks compare a hash of the parameters: on CPUs every `check_interval`
    updates, and on GPUs once for each row of metrics."""

    def __init__(self, guarded: GuardedStep, mean: GradientMean, check_interval: int = 100):
        """`check_interval` is the number of updates between two comparisons of the parameters on CPUs. With 0, the
        parameters are not compared, neither on CPUs nor on GPUs."""
        super().__init__(guarded)
        self.times["sync_s"] = 0.0
        self.mean, self.check_interval = mean, check_interval
        self._updates = 0
        self._on_gpu = not self.flat.data.is_cpu

    def backward(self, loss: Tensor, samples: Tensor | float = 1.0) -> None:
        self.mean.backward(loss, samples)

    def step(self, learning_rate: Rate, loss: Tensor, samples: Tensor | float = 1.0) -> Tensor:
        began = time.monotonic()
        norm, loss = self.mean.reduce(loss, samples, self.guarded.max_norm)
        self.times["sync_s"] += time.monotonic() - began
        self.guarded.of_clipped(learning_rate, norm + loss)
        self._updates += 1
        if self.check_interval and self._updates % self.check_interval == 0 and not self._on_gpu:
            self._compare()
        return norm

    def verify(self) -> None:
        """On GPUs, compare the parameters of all ranks. Raises RunError if the parameters are not identical."""
        if self.check_interval and self._on_gpu:
            self._compare()

    def _compare(self) -> None:
        compare_ranks(self.flat, self.mean.communicator, self._updates)


class CollectiveMean:
    """Averages gradients over torch's process group, by NCCL on GPUs and gloo on CPUs.

    Each rank is weighted by its number of valid samples. The gradient, the number of samples and the loss share one
    collective, so that all ranks detect a non-finite number in the same update. On CPUs, if one layer holds most
    parameters, the all-reduce of this layer begins while the backward pass still computes the gradients of earlier
    layers:

        backward  | heads | wide layer | convolutions ....... |
        sockets                        | wide layer ..... | the rest |
    """

    def __init__(self, flat: FlatParameters, communicator: Collective):
        self._flat, self.communicator = flat, communicator
        self._ahead = _wide(flat)
        self._computing = False
        self._finish: Callable[[], None] | None = None
        if self._ahead is not None:
            dict(flat.named)[self._ahead].register_post_accumulate_grad_hook(self._send_ahead)

    def backward(self, loss: Tensor, samples: Tensor | float) -> None:
        self._computing = True
        self._flat.backward(loss * samples)
        self._computing = False

    def _send_ahead(self, p: Tensor) -> None:
        """Start the all-reduce of the wide layer's gradient. Autograd calls `_send_ahead` when the gradient of the wide
        layer is complete."""
        if not self._computing:
            return
        view: Tensor = p.flat_grad  # type: ignore[attr-defined]
        assert p.grad is not None
        if p.grad.data_ptr() != view.data_ptr():
            view.copy_(p.grad)
            p.grad = view
        self._finish = self.communicator.begin_sum(view)

    def reduce(self, loss: Tensor, samples: Tensor | float, max_norm: float | None) -> tuple[Tensor, Tensor]:
        message = self._flat.message
        # A CUDA graph can capture `copy_`, but not an assignment.
        message[-1].copy_(loss * samples)
        if isinstance(samples, Tensor):
            message[-2].copy_(samples)
        else:
            message[-2].fill_(samples)
        if self._finish is None:
            self.communicator.all_reduce_sum(message)
        else:
            part = self._flat.slices[self._ahead]  # type: ignore[index]
            rest = torch.cat([message[: part.start], message[part.stop :]])
            self.communicator.all_reduce_sum(rest)
            message[: part.start], message[part.stop :] = rest[: part.start], rest[part.start :]
            self._finish()
            self._finish = None
        return clip_by_norm_(self._flat.grad, max_norm, message[-2]), message[-1] / message[-2]


def _wide(flat: FlatParameters) -> str | None:
    """The name of the parameter tensor that contains more than half of all parameters and at least WIDE parameters, or
    None if there is none. Return None on a GPU, whose all-reduce uses no CPU core."""
    name = max(flat.slices, key=lambda name: len(flat.data[flat.slices[name]]))
    n = len(flat.data[flat.slices[name]])
    return name if flat.data.device.type == "cpu" and n >= WIDE and 2 * n > len(flat.data) else None


def compare_ranks(flat: FlatParameters, communicator: Collective, updates: int, with_untrained: bool = False) -> None:
    """Raise RunError, naming the ranks, if the parameters of all ranks are not bitwise identical. The error message
    contains `updates`, the number of updates made. With `with_untrained`, frozen parameters and buffers are also
    compared."""
    tensors = (flat.data, *(flat.untrained() if with_untrained else ()))
    digests = communicator.gather([digest(x) for x in tensors])
    if any(d != digests[0] for d in digests):
        most = max(digests, key=digests.count)
        wrong = ", ".join(str(r) for r, d in enumerate(digests) if d != most)
        raise RunError(f"after {updates} updates the parameters of rank {wrong} differ from the others'")


def digest(data: Tensor) -> str:
    """A hash of all bits of data [...]."""
    complete = data.detach().cpu().contiguous().reshape(-1)
    return hashlib.sha256(complete.view(torch.uint8).numpy().tobytes()).hexdigest()[:16]
