"""Adam (Kingma & Ba 2014, arXiv:1412.6980)."""

import math
from typing import Any

import torch
from torch import Tensor

from accel_rl.optim.optimizer import ElementWise


class Adam(ElementWise):
    """Adam by torch's fused operation: bias-corrected moments, epsilon outside the root.

    Its two forms add epsilon to different roots. Algorithm 1 (torch) adds it to the bias-corrected root:

        theta <- theta - lr m_hat / (sqrt(v_hat) + epsilon),  m_hat = m / (1 - beta_1^t),  v_hat = v / (1 - beta_2^t)

    `epsilon_hat`, the form at the end of the paper's section 2 (Lasagne, TensorFlow; Stooke & Abbeel 2018, appendix A),
    adds it to the root without bias correction:

        theta <- theta - lr sqrt(1 - beta_2^t) / (1 - beta_1^t) m / (sqrt(v) + epsilon)

    This equals algorithm 1 with epsilon / sqrt(1 - beta_2^t): 32 times epsilon at the first step, and nearly epsilon
    after some thousands of steps.
    """

    def __init__(
        self,
        size: int,
        epsilon: float = 1e-8,
        beta_1: float = 0.9,
        beta_2: float = 0.999,
        device: str = "cpu",
        epsilon_hat: bool = False,
    ):
        self.epsilon, self.beta_1, self.beta_2, self.epsilon_hat = epsilon, beta_1, beta_2, epsilon_hat
        self.mean = torch.zeros(size, device=device)
        self.square = torch.zeros(size, device=device)
        self.steps = 0

    def step(self, data: Tensor, grad: Tensor, learning_rate: float) -> None:
        self.steps += 1
        super().step(data, grad, learning_rate)

    def _update(self, part: slice, data: Tensor, grad: Tensor, learning_rate: float) -> None:
        step = torch.tensor(float(self.steps), device=data.device)
        # called directly: torch.optim adds overhead to each step
        torch._fused_adam_(
            [data], [grad], [self.mean[part]], [self.square[part]], [], [step],
            amsgrad=False, beta1=self.beta_1, beta2=self.beta_2, lr=learning_rate, weight_decay=0.0,
            eps=self.epsilon_now, maximize=False,
        )  # fmt: skip

    @property
    def epsilon_now(self) -> float:
        """Epsilon that is added to the bias-corrected root at step `steps`."""
        return self.epsilon / math.sqrt(1 - self.beta_2**self.steps) if self.epsilon_hat else self.epsilon

    def state_dict(self) -> dict[str, Any]:
        return {"mean": self.mean, "square": self.square, "steps": self.steps}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.mean.copy_(state["mean"])
        self.square.copy_(state["square"])
        self.steps = state["steps"]
