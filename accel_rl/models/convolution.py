"""Convolutional bodies over stacks of uint8 frames."""

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from accel_rl.models.initialize import orthogonal_


class ScaledConv2d(nn.Conv2d):
    """A first layer for uint8 pictures: the 1/255 is folded into the (small) weights, not into the (large) input."""

    def forward(self, x: Tensor) -> Tensor:
        return F.conv2d(x.to(self.weight.dtype), self.weight / 255, self.bias, self.stride, self.padding)


def conv_out(size: int, kernel: int, stride: int, padding: int) -> int:
    return (size + 2 * padding - kernel) // stride + 1


class A3CNet(nn.Module):
    """The two-convolution network of Mnih et al. 2016, as Stooke & Abbeel section 5.1 use it on 104x80.

    16 of 8x8 stride 4; 32 of 4x4 stride 2 padding 1; fully connected 256. obs [N, S, H, W] uint8 -> [N, 256].
    0.90 M parameters at 104x80x4.
    """

    def __init__(self, stack: int, height: int, width: int, hidden: int = 256):
        super().__init__()
        self.conv_0 = ScaledConv2d(stack, 16, 8, stride=4)
        self.conv_1 = nn.Conv2d(16, 32, 4, stride=2, padding=1)
        h, w = (conv_out(conv_out(x, 8, 4, 0), 4, 2, 1) for x in (height, width))
        self.fc_0 = nn.Linear(32 * h * w, hidden)
        gain = math.sqrt(2)  # torch's own start shrinks the signal by half in each layer
        orthogonal_(self.conv_0, gain)
        orthogonal_(self.conv_1, gain)
        orthogonal_(self.fc_0, gain)
        self.out_features = hidden

    def forward(self, obs: Tensor) -> Tensor:
        x = torch.relu_(self.conv_0(obs))
        x = torch.relu_(self.conv_1(x))
        # in the order of channels-last memory, so that nothing is moved, forward or backward
        return torch.relu_(self.fc_0(x.permute(0, 2, 3, 1).flatten(1)))
