"""AdaGrad (Duchi, Hazan & Singer 2011), the optimizer of Nair et al. 2015 (section 4.2)."""

from typing import Any

import torch
from torch import Tensor

from accel_rl.optim.optimizer import ElementWise, Rate


class AdaGrad(ElementWise):
    """Divide each step by the root of the sum of all squared gradients (diagonal AdaGrad, Duchi et al. 2011, figure 1).

        s <- s + g^2;  theta <- theta - lr g / (sqrt(s) + epsilon)

    Epsilon is outside the root, as in torch.optim.Adagrad. The sum begins at zero.
    """

    def __init__(self, size: int, epsilon: float = 1e-10, device: str = "cpu"):
        self.epsilon = epsilon
        self.decay = {"square": 1.0}
        self.square = torch.zeros(size, device=device)  # the sum s of squared gradients

    def _update(self, part: slice, data: Tensor, grad: Tensor, learning_rate: Rate, finite: Tensor | None) -> None:
        # the gradient of a skipped update is all zeros: it adds nothing to the sum, and the step is zero
        denominator = self.square[part].addcmul_(grad, grad).sqrt().add_(self.epsilon)
        if isinstance(learning_rate, Tensor):
            data.sub_(learning_rate * grad / denominator)
        else:
            data.addcdiv_(grad, denominator, value=-learning_rate)

    def state_dict(self) -> dict[str, Any]:
        return {"square": self.square}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.square.copy_(state["square"])
