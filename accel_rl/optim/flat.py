"""Flat parameters store all parameters of a model in one vector, and all gradients in another."""

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

ALIGNED = 64  # A GPU multiplies aligned matrices faster, and some of its kernels require an alignment of 16 bytes.
ROW = 1024  # `l2_norm` adds at most 1,024 squares in one float32 sum.


class FlatParameters:
    """A model's parameters and gradients in two flat vectors [P], of which the model's tensors become views.

    With flat vectors, the whole network needs one norm, one optimizer step and one all-reduce, and a chunk of the
    network is a slice.
    """

    def __init__(self, model: nn.Module):
        self.model = model
        named = [(n, p) for n, p in model.named_parameters() if p.requires_grad]
        # Tensors whose size is not a multiple of 64 numbers (mostly small biases) come last, so that all other tensors
        # begin at multiples of 64 numbers.
        self.named = sorted(named, key=lambda item: item[1].numel() % ALIGNED != 0)
        params = [p for _, p in self.named]
        self.data = torch.cat([p.detach().reshape(-1) for p in params])
        # One collective operation sums `message` over ranks: the gradient, the number of samples, and the summed loss.
        self.message = torch.zeros(len(self.data) + 2, dtype=self.data.dtype, device=self.data.device)
        self.grad = self.message[:-2]
        self.slices: dict[str, slice] = {}
        all_names = model.named_parameters(remove_duplicate=False)
        first = {p: name for name, p in self.named}
        self._names = {name: first[p] for name, p in all_names if p in first}  # Modules may share a parameter.
        offset = 0
        for name, p in self.named:
            n = p.numel()
            p.data = self.data[offset : offset + n].view_as(p)
            self.slices[name] = slice(offset, offset + n)
            offset += n
        self._show()

    def place_gradient(self, message: Tensor) -> None:
        """Write all later gradients to `message` [P + 2], which may be shared memory."""
        assert message.shape == self.message.shape and message.dtype == self.message.dtype
        message.copy_(self.message)
        self.message, self.grad = message, message[:-2]
        self._show()

    def _show(self) -> None:
        """Make each parameter's gradient a view of the flat gradient, so that a backward pass adds to the flat gradient
        in place."""
        for (_, p), part in zip(self.named, self.slices.values(), strict=True):
            p.grad = p.flat_grad = self.grad[part].view_as(p)  # type: ignore[attr-defined]

    def zero_grad(self) -> None:
        self.grad.zero_()

    def backward(self, loss: Tensor) -> None:
        """Write the gradient of a loss [] to `grad`, overwriting the old gradient. Autograd writes to its own tensors,
        which are then copied to `grad`. Copying moves half as much memory as adding the gradients to a vector of zeros.
        A gradient that a layer has written directly into `grad` (models/layers.py) is not copied."""
        for _, p in self.named:
            p.grad = None
        loss.backward()
        views, grads = list[Tensor](), list[Tensor]()
        for _, p in self.named:
            view: Tensor = p.flat_grad  # type: ignore[attr-defined]
            if p.grad is None:
                view.zero_()
            elif p.grad.data_ptr() != view.data_ptr():
                views.append(view)
                grads.append(p.grad)
            p.grad = view
        if views:
            torch._foreach_copy_(views, grads)  # On a GPU, one kernel copies all gradients.

    def layers(self) -> Iterator[tuple[str, slice]]:
        """(name, slice of the flat vector) of each parameter tensor, in order."""
        yield from self.slices.items()

    def untrained(self) -> list[Tensor]:
        """Tensors that are not in the vector: frozen parameters and persistent buffers."""
        return [x for name, x in self.model.state_dict().items() if name not in self._names]

    # -- names ------------------------------------------------------------

    def layout(self) -> list[list[Any]]:
        """[name, shape] of each parameter tensor, in the order of the vector."""
        return [[name, list(p.shape)] for name, p in self.named]

    def by_name(self, vector: Tensor) -> dict[str, Tensor]:
        """Views of a vector [P] in the parameters' shapes. A shared parameter appears under each of its names."""
        views = {name: vector[self.slices[name]].view(p.shape) for name, p in self.named}
        return {name: views[first] for name, first in self._names.items()}

    def vector(self, state: Mapping[str, Tensor]) -> Tensor:
        """Inverse of `by_name`: [P]."""
        return torch.cat([state[name].reshape(-1) for name, _ in self.named])

    def order(self, layout: Sequence[Sequence[Any]]) -> Tensor | None:
        """The index [P] that reorders a vector of another layout into the model's layout, or None if the layouts are
        equal. Raises ValueError, with a message of one line, if the two layouts differ in names or shapes."""
        theirs, mine = ({name: list(shape) for name, shape in x} for x in (layout, self.layout()))
        for name in [*mine, *theirs]:
            if mine.get(name) != theirs.get(name):
                raise ValueError(
                    f"the optimizer's state is of other parameters: {name!r} is {_trained(theirs.get(name))} there, "
                    f"{_trained(mine.get(name))} here"
                )
        if list(mine) == list(theirs):
            return None
        begin, parts = 0, dict[str, Tensor]()
        for name, shape in theirs.items():
            parts[name] = torch.arange(begin, begin + math.prod(shape))
            begin += math.prod(shape)
        return torch.cat([parts[name] for name in mine])


def _trained(shape: list[int] | None) -> str:
    return "not trained" if shape is None else f"of shape {shape}"


def l2_norm(x: Tensor) -> Tensor:
    """The L2 norm [] of a vector [P]. On a CPU, torch accumulates all squares in a few float32 sums, with a relative
    error of 4e-4 for 7 million values. `l2_norm` computes the norm of the norms of rows, which takes the same time and
    has an error of 1e-7."""
    if not x.is_cpu or len(x) < 16 * ROW:
        return torch.linalg.vector_norm(x)
    end = len(x) // ROW * ROW
    rows = torch.linalg.vector_norm(x[:end].view(-1, ROW), dim=1)
    return torch.linalg.vector_norm(torch.cat((rows, torch.linalg.vector_norm(x[end:]).view(1))))


def clip_by_norm_(grad: Tensor, max_norm: float | None, count: Tensor | None = None) -> Tensor:
    """Clip grad [P] in place, without synchronising with a GPU, and return the norm before clipping. `count` [] is the
    number of samples in the sum `grad`. If `count` is given, `grad` is divided by `count`, and the norm of the mean
    gradient is returned."""
    norm = l2_norm(grad)
    if count is not None:
        norm = norm / count
        grad.mul_((1.0 if max_norm is None else (max_norm / (norm + 1e-6)).clamp(max=1.0)) / count)
    # On a CPU, a gradient that need not be clipped is not multiplied.
    elif max_norm is not None and (not grad.is_cpu or norm > max_norm):
        grad.mul_((max_norm / (norm + 1e-6)).clamp(max=1.0))
    return norm
