"""This module accumulates several updates into one, which consists of the sum of their steps, and of what they add to
the optimizer's state.

Stooke & Abbeel 2018, appendix A, accumulate n Adam updates with gradients g and steps s:

    a_g <- beta_1 a_g + g;   a_g2 <- beta_2 a_g2 + g^2;   a_s <- a_s + s

    theta <- theta - a_s;   m <- beta_1^n m + (1 - beta_1) a_g;   v <- beta_2^n v + (1 - beta_2) a_g2

Each tensor x of an optimizer's state in this project is an average or a sum of gradients: x <- decay x + f(g). The sums
over the n updates can therefore be computed from the optimizer's state before and after the updates. For example, (1 -
beta_1) a_g is m after the updates minus beta_1^n times m before the updates.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

NOT_NEGATIVE = "square"  # Every optimizer has an average or a sum of squared gradients named "square".


@dataclass(frozen=True, slots=True)
class Accumulated:
    """`Accumulated` is the combined effect of `updates` updates of n parameters."""

    updates: int
    step: Tensor  # `step` [n] is the sum of the optimizer's steps: theta <- theta - step.
    added: dict[str, Tensor]  # The optimizer's state vector x becomes decay^updates x + added.

    def is_finite(self) -> bool:
        return all(bool(torch.isfinite(x).all()) for x in (self.step, *self.added.values()))


@dataclass(frozen=True, slots=True)
class Point:
    """A `Point` has the values of parameters and the state of their optimizer at one moment."""

    parameters: Tensor  # [n]
    optimizer: dict[str, Any]  # The optimizer's state is a `state_dict`, whose numbers count updates.

    def part(self, part: slice) -> "Point":
        """Return a `Point` of views of the slice `part` of the parameters and of the state's tensors."""
        state = {name: x[part] if isinstance(x, Tensor) else x for name, x in self.optimizer.items()}
        return Point(self.parameters[part], state)

    def copy(self) -> "Point":
        """Return a `Point` with copies of all tensors."""
        state = {name: x.clone() if isinstance(x, Tensor) else x for name, x in self.optimizer.items()}
        return Point(self.parameters.clone(), state)


def between(before: Point, after: Point, updates: int, decay: Mapping[str, float]) -> Accumulated:
    """Return the combined effect of `updates` updates, computed from the parameters and the optimizer's state before
    and after these updates. `decay` is `Optimizer.decay`."""
    added = {}
    for name, factor in decay.items():
        x = after.optimizer[name] - factor**updates * before.optimizer[name]
        added[name] = x.clamp_(min=0) if name == NOT_NEGATIVE else x  # Rounding can make the sum negative.
    return Accumulated(updates, before.parameters - after.parameters, added)


def add_(point: Point, accumulated: Accumulated, decay: Mapping[str, float]) -> dict[str, float]:
    """Apply the accumulated updates to the tensors of `point` in place, and return the new values of the numbers in the
    optimizer's state."""
    point.parameters.sub_(accumulated.step)
    for name, factor in decay.items():
        point.optimizer[name].mul_(factor**accumulated.updates).add_(accumulated.added[name])
    return {n: x + accumulated.updates for n, x in point.optimizer.items() if not isinstance(x, Tensor)}
