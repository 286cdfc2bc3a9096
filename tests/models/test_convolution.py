"""The papers' convolutional networks, layer by layer."""

import math
from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from accel_rl.data.spec import EnvSpec
from accel_rl.kernels.frames import FrameStacks
from accel_rl.models.convolution import ConvNet
from accel_rl.models.networks import A3CNet, DQNNet, find_network
from accel_rl.models.q_network import QuantileNetwork
from accel_rl.settings.train import default_config
from accel_rl.text.errors import ConfigError
from accel_rl.training.learner import build_algorithm


@pytest.mark.parametrize(
    ("network", "parameters", "features"),
    [
        # Sums of the numbers of parameters of each layer. Observations have 4 x 104 x 80 numbers.
        # The first convolution returns 25 x 19 numbers per channel, and the last convolution 12 x 9.
        (A3CNet, 4112 + 8224 + 256 * (32 * 12 * 9 + 1), 256),
        (DQNNet, 8224 + 32832 + 36928 + 512 * (64 * 12 * 9 + 1), 512),
    ],
    ids=["a3c", "dqn"],
)
def test_layers(network: type[ConvNet], parameters: int, features: int) -> None:
    net = network(4, 104, 80)
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


@pytest.mark.parametrize("place", ["before", "after", "before-channels"])
def test_a_layer_norm_stands_before_or_after_each_relu(place):
    torch.manual_seed(0)
    net = A3CNet(4, 104, 80, layer_norm=place)

    def activated(x, relu):
        norm = relu.after if place == "after" else relu.before
        if place == "before-channels":
            assert norm.weight.shape == x.shape[-1:]
            return torch.relu(F.layer_norm(x, x.shape[-1:], norm.weight, norm.bias, 1e-6))
        if place == "before":
            return torch.relu(F.layer_norm(x, x.shape[1:], norm.weight, norm.bias))
        return F.layer_norm(torch.relu(x), x.shape[1:], norm.weight, norm.bias)

    for norm in (m for m in net.modules() if isinstance(m, torch.nn.LayerNorm)):
        torch.nn.init.normal_(norm.weight)
        torch.nn.init.normal_(norm.bias)
    obs = torch.randint(256, (3, 4, 104, 80), dtype=torch.uint8)
    x = obs / 255
    for conv in net.convolutions:
        x = F.conv2d(x, conv.weight, conv.bias, conv.stride, conv.padding).permute(0, 2, 3, 1)
        x = activated(x, conv.relu).permute(0, 3, 1, 2)
    x = net.fc_0(x.permute(0, 2, 3, 1).flatten(1))
    want = activated(x, net.relu_0)
    torch.testing.assert_close(net(obs), want, atol=1e-4, rtol=1e-4)
    net(obs).sum().backward()
    assert all(p.grad is not None and p.grad.abs().sum() > 0 for p in net.parameters())


# Padding (left, right, top, bottom) of each convolution for TensorFlow's SAME: ceil(size / stride) rows and columns.
SAME = {
    (84, 84): [(2, 2, 2, 2), (1, 2, 1, 2), (1, 1, 1, 1)],  # sizes 84 x 84 -> 21 x 21 -> 11 x 11 -> 11 x 11
    (104, 80): [(2, 2, 2, 2), (1, 1, 1, 1), (1, 1, 1, 1)],  # sizes 104 x 80 -> 26 x 20 -> 13 x 10 -> 13 x 10
    (83, 86): [(3, 3, 2, 3), (1, 1, 1, 2), (1, 1, 1, 1)],  # sizes 83 x 86 -> 21 x 22 -> 11 x 11 -> 11 x 11
}


@pytest.mark.parametrize("place", ["none", "before"])
@pytest.mark.parametrize("size", SAME)
def test_same_padding_is_tensorflows(size, place):
    torch.manual_seed(0)
    net = find_network("nature-same")(4, *size, layer_norm=place)
    obs = torch.randint(256, (5, 4, *size), dtype=torch.uint8)

    def oracle():
        x = obs.double() / 255
        for zeros, conv in zip(SAME[size], net.convolutions, strict=True):
            x = F.conv2d(F.pad(x, zeros), conv.weight.double(), conv.bias.double(), conv.stride)
            if place == "before":
                x = F.layer_norm(x.permute(0, 2, 3, 1), (*x.shape[2:], x.shape[1])).permute(0, 3, 1, 2)
            x = torch.relu(x)
        x = F.linear(x.permute(0, 2, 3, 1).flatten(1), net.fc_0.weight.double(), net.fc_0.bias.double())
        return torch.relu(F.layer_norm(x, (512,)) if place == "before" else x)

    shade = torch.linspace(-1, 1, 5 * 512).view(5, 512).mul(50).sin()
    weights = [layer.weight for layer in (*net.convolutions, net.fc_0)]
    got, want = net(obs), oracle()
    torch.testing.assert_close(got.double(), want, rtol=1e-4, atol=1e-4)
    gradients = torch.autograd.grad(got, weights, shade), torch.autograd.grad(want, weights, shade.double())
    for a, b in zip(*gradients, strict=True):
        # Gradients may differ where rounding changes the sign of a ReLU's input.
        assert float((a - b).norm()) < 1e-3 * float(b.norm())


def test_same_padding_of_frames_that_are_not_gathered():
    net, frames = find_network("nature-same")(4, 84, 84), torch.randint(256, (9, 2, 84, 84), dtype=torch.uint8)
    cells = torch.tensor([0, 3, 5]), torch.tensor([1, 0, 1])
    stacks = FrameStacks(frames, *cells, torch.tensor([3, 1, 0], dtype=torch.uint8), 4)
    with torch.no_grad():
        assert torch.equal(net(stacks), net(stacks.gather()))


def test_dopamines_network_has_its_size():
    net = find_network("nature-same")(4, 84, 84, hidden=0)
    assert net.out_features == 11 * 11 * 64 == 7_744
    for size in ((1, 1), (7, 20)):
        assert find_network("nature-same")(4, *size)(torch.zeros(1, 4, *size, dtype=torch.uint8)).shape == (1, 512)


def test_dopamines_network_has_its_initial_weights():
    """Every layer, the last one too, is uniform in +- sqrt(3 s / fan_in) with s = 1 / sqrt(3), and the biases are 0
    (variance_scaling of dopamine/jax/networks.py)."""
    torch.manual_seed(0)
    spec = EnvSpec("x", (84, 84), "uint8", n_actions=6, stack=4)
    net = QuantileNetwork(spec, "nature-same", atoms=200)
    layers = [m for m in net.modules() if isinstance(m, nn.Conv2d | nn.Linear)]
    assert len(layers) == 5
    for layer in layers:
        weight = layer.weight.detach()
        bound = (3**0.5 / weight[0].numel()) ** 0.5
        assert 0.99 * bound < float(weight.abs().max()) <= bound
        torch.testing.assert_close(float(weight.std()), bound / 3**0.5, rtol=0.02, atol=0)
        assert not layer.bias.any()


class Wide(ConvNet):
    layers = ((16, 8, 8, 0),)
    hidden = 32


@pytest.mark.parametrize("algorithm", ["ppo", "dqn"])
def test_a_network_of_a_users_is_found_by_its_name(algorithm):
    config = default_config(algorithm)
    config = replace(config, algo=replace(config.algo, network=f"{__name__}:Wide"))
    config.algo.check()
    spec = EnvSpec("x", (84, 84), "uint8", n_actions=3, stack=4)
    assert isinstance(build_algorithm(config, spec, "cpu").agent.model.body, Wide)


@pytest.mark.parametrize(
    ("name", "line"),
    [
        (
            "natur",
            "must be a3c, dqn, nature, nature-same, data-efficient, impala, btr, hadamax, minatar, impala-2 to "
            "impala-16 or module:Class; nearest: nature",
        ),
        ("no_such_module:Net", "--algo.network no_such_module:Net: it cannot be imported"),
        (f"{__name__}:Wid", "has no Wid; nearest: Wide"),
        ("math:pi", "must be a class of modules (torch.nn.Module)"),
    ],
)
def test_another_name_is_one_line(name, line):
    with pytest.raises(ConfigError) as e:
        find_network(name)
    assert line in str(e.value) and "\n" not in str(e.value)
