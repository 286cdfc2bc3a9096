"""All parameters of a model in one vector, and all gradients in another."""

from collections.abc import Iterator

import torch
from torch import Tensor, nn


class FlatParameters:
    """Moves a model's parameters and gradients into two flat vectors [P]; the model's own tensors become views of them.

    One norm, one optimizer step and one all-reduce then serve the whole network, and a chunk of it is a slice.
    """

    def __init__(self, model: nn.Module):
        self.named = [(n, p) for n, p in model.named_parameters() if p.requires_grad]
        params = [p for _, p in self.named]
        self.data = torch.cat([p.detach().reshape(-1) for p in params])
        # two numbers more, which travel with the gradient where it is summed over ranks
        self.message = torch.zeros(len(self.data) + 2, dtype=self.data.dtype, device=self.data.device)
        self.grad = self.message[:-2]
        self.slices: dict[str, slice] = {}
        at = 0
        for name, p in self.named:
            n = p.numel()
            p.data = self.data[at : at + n].view_as(p)
            self.slices[name] = slice(at, at + n)
            at += n
        self._show()

    def place_gradient(self, message: Tensor) -> None:
        """Gradients go to `message` [P + 2] from now on, memory that others see, too."""
        assert message.shape == self.message.shape and message.dtype == self.message.dtype
        message.copy_(self.message)
        self.message, self.grad = message, message[:-2]
        self._show()

    def _show(self) -> None:
        """Each parameter's gradient is its part of the vector: backward adds in place from now on."""
        for (_, p), part in zip(self.named, self.slices.values(), strict=True):
            p.grad = p.flat_grad = self.grad[part].view_as(p)  # type: ignore[attr-defined]

    def zero_grad(self) -> None:
        self.grad.zero_()

    def backward(self, loss: Tensor) -> None:
        """The gradient of a loss [] into `grad`; what was there is gone.

        Into tensors of autograd's own, which are then copied (adding to zeros moves twice as much memory), but for a
        layer that has written its gradient here itself (models/linear.py).
        """
        for _, p in self.named:
            p.grad = None
        loss.backward()
        for _, p in self.named:
            view: Tensor = p.flat_grad  # type: ignore[attr-defined]
            if p.grad is None:
                view.zero_()
            elif p.grad.data_ptr() != view.data_ptr():
                view.copy_(p.grad)
            p.grad = view

    def layers(self) -> Iterator[tuple[str, slice]]:
        """(name, slice of the flat vector) per parameter tensor, in order."""
        yield from self.slices.items()


def clip_by_norm_(grad: Tensor, max_norm: float | None, count: Tensor | None = None) -> Tensor:
    """Scale grad [P] in place to an L2 norm of at most max_norm; returns the norm before. Does not synchronise a GPU.

    count []: grad is a sum of so many, and becomes their mean.
    """
    norm = torch.linalg.vector_norm(grad)
    if count is not None:
        norm = norm / count
        grad.mul_((1.0 if max_norm is None else (max_norm / (norm + 1e-6)).clamp(max=1.0)) / count)
    elif max_norm is not None and (grad.is_cuda or norm > max_norm):  # most often there is nothing to scale
        grad.mul_((max_norm / (norm + 1e-6)).clamp(max=1.0))
    return norm
