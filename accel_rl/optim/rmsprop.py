"""RMSProp without momentum (Tieleman & Hinton 2012)."""

from typing import Any

import torch
from torch import Tensor

from accel_rl.optim.optimizer import ElementWise, Rate


class RMSProp(ElementWise):
    """v <- alpha v + (1 - alpha) g^2;  theta <- theta - lr g / denominator.

    The denominator has two forms: sqrt(v + eps) with `epsilon_inside` (Lasagne; the first A2C codes), else
    sqrt(v) + eps (torch.optim.RMSprop). They agree only as eps -> 0.
    `centered`: v - m^2 in place of v, with m the running mean of g (Graves 2013, eq. 38 to 41; Mnih et al. 2015).
    """

    def __init__(
        self,
        size: int,
        alpha: float,
        epsilon: float,
        epsilon_inside: bool,
        device: str = "cpu",
        centered: bool = False,
    ):
        self.alpha, self.epsilon, self.epsilon_inside = alpha, epsilon, epsilon_inside
        self.decay = {"square": alpha} | ({"mean": alpha} if centered else {})
        self.square = torch.zeros(size, device=device)
        self.mean = torch.zeros(size, device=device) if centered else None

    def _update(self, part: slice, data: Tensor, grad: Tensor, learning_rate: Rate, finite: Tensor | None) -> None:
        square = self.square[part]
        # with alpha 1, and a gradient of zeros, nothing changes
        alpha: Rate = self.alpha if finite is None else torch.where(finite, self.alpha, 1.0)
        variance = square.mul_(alpha).addcmul_(grad, grad, value=1 - self.alpha)
        if self.mean is not None:
            mean = self.mean[part].mul_(alpha).add_(grad, alpha=1 - self.alpha)
            variance = torch.addcmul(square, mean, mean, value=-1).clamp_(min=0)  # below 0 by rounding
        if self.epsilon_inside:
            denominator = variance.add(self.epsilon).sqrt_()
        else:
            denominator = variance.sqrt().add_(self.epsilon)
        if isinstance(learning_rate, Tensor):
            data.sub_(learning_rate * grad / denominator)
        else:
            data.addcdiv_(grad, denominator, value=-learning_rate)

    def state_dict(self) -> dict[str, Any]:
        return {"square": self.square} | ({} if self.mean is None else {"mean": self.mean})

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.square.copy_(state["square"])
        if self.mean is not None:
            self.mean.copy_(state["mean"])
