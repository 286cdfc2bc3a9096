"""The ReLU, against torch's."""

import torch

from accel_rl.kernels.activations import relu_


def test_it_is_torchs_in_place():
    x = torch.randn(1000)
    x[7], x[8] = float("nan"), float("-inf")
    want, y = torch.relu(x), x.clone()
    assert relu_(y) is y and torch.equal(y.nan_to_num(5.0), want.nan_to_num(5.0))
    loss = relu_(torch.ones(3, requires_grad=True) * -1).sum()
    loss.backward()
