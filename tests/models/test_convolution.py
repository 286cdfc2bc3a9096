"""The papers' networks, layer by layer."""

import math

import pytest
import torch
import torch.nn.functional as F

from accel_rl.models.convolution import A3CNet, ConvNet, DQNNet


@pytest.mark.parametrize(
    ("net", "parameters", "features"),
    [
        # weights and biases of each layer at 4 x 104 x 80: 25 x 19 -> 12 x 9 (-> 12 x 9)
        (A3CNet(4, 104, 80), 4112 + 8224 + 256 * (32 * 12 * 9 + 1), 256),
        (DQNNet(4, 104, 80), 8224 + 32832 + 36928 + 512 * (64 * 12 * 9 + 1), 512),
    ],
    ids=["a3c", "dqn"],
)
def test_layers(net: ConvNet, parameters: int, features: int) -> None:
    assert sum(p.numel() for p in net.parameters()) == parameters
    obs = torch.randint(256, (3, 4, 104, 80), dtype=torch.uint8)
    x = obs.float() / 255
    for i, (_, _, stride, padding) in enumerate(net.layers):
        layer = getattr(net, f"conv_{i}")
        x = F.relu(F.conv2d(x, layer.weight, layer.bias, stride, padding))
    x = F.relu(F.linear(x.permute(0, 2, 3, 1).flatten(1), net.fc_0.weight, net.fc_0.bias))
    assert x.shape == (3, features) == (3, net.out_features)
    torch.testing.assert_close(net(obs), x, rtol=1e-4, atol=1e-5)


def test_weights_begin_orthogonal() -> None:
    net = DQNNet(4, 84, 84)
    for layer in (*net.convolutions, net.fc_0):
        w = layer.weight.detach().flatten(1)
        w = w if w.shape[0] <= w.shape[1] else w.T
        torch.testing.assert_close(w @ w.T, 2 * torch.eye(len(w)), rtol=0, atol=1e-4)
        assert not layer.bias.detach().any()
    assert math.isfinite(float(net(torch.zeros(1, 4, 84, 84, dtype=torch.uint8)).detach().sum()))


def test_one_frame_with_and_without_an_axis_of_the_stack():
    net = A3CNet(1, 36, 36)
    frames = torch.randint(0, 256, (3, 36, 36), dtype=torch.uint8)
    assert torch.equal(net(frames), net(frames.unsqueeze(1)))
