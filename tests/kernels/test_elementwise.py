"""Element-wise operations, against torch's."""

import torch

from accel_rl.kernels import elementwise


def test_relu_and_copy():
    x = torch.randn(1000)
    x[7], x[8] = float("nan"), float("-inf")
    want, y = torch.relu(x), x.clone()
    assert elementwise.relu_(y) is y and torch.equal(y.nan_to_num(5.0), want.nan_to_num(5.0))
    loss = elementwise.relu_(torch.ones(3, requires_grad=True) * -1).sum()
    loss.backward()
    for out, source in (
        (torch.zeros(1000), x),
        (torch.zeros(1000, dtype=torch.float64), x),
        (torch.zeros(2000)[::2], x),
    ):
        elementwise.copy_(out, source)
        assert torch.equal(out.float().nan_to_num(5.0), x.nan_to_num(5.0))
