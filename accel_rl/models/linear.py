"""Fully connected layers."""

from torch import Tensor, nn

from accel_rl.kernels.linear import head_linear, hidden_linear


class Linear(nn.Linear):
    """A wide hidden layer. x [N, F] -> [N, G]."""

    def forward(self, x: Tensor) -> Tensor:
        return hidden_linear(x, self.weight, self.bias)


class Head(nn.Linear):
    """The last layer of a network. x [N, F] -> [N, G]."""

    def forward(self, x: Tensor) -> Tensor:
        return head_linear(x, self.weight, self.bias)
