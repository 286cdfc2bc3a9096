"""Spectrally normalized layers equal torch's. The network of BTR ("Beyond the Rainbow") is as in the paper."""

import copy
import subprocess
import sys
from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.utils.parametrizations import spectral_norm

from accel_rl.algos.dqn import DQN
from accel_rl.data.spec import EnvSpec
from accel_rl.models.convolution import Conv2d
from accel_rl.models.network_state import copy_network, has_modes, load_network, network_state, training_mode
from accel_rl.models.networks import find_network
from accel_rl.models.q_network import QNetwork
from accel_rl.models.residual import BTRNet, ImpalaNet
from accel_rl.optim.flat import FlatParameters
from accel_rl.settings.train import default_config
from tests.algos.made_up import SPEC


class Small(ImpalaNet):
    """A small ImpalaNet with spectral norms, for fast tests."""

    layers = ((8, 3, 1, 1), (8, 3, 1, 1))
    hidden = 32
    spectral_norm = True
    pool_to = 6


class WithoutSpectralNorm(BTRNet):
    spectral_norm = False


class WithoutPooling(BTRNet):
    pool_to = None


def torchs(conv: Conv2d) -> nn.Conv2d:
    """Return torch's spectrally normalized layer with the weight, bias and power-iteration vectors of `conv`."""
    other = nn.Conv2d(conv.in_channels, conv.out_channels, 3, padding=1)
    other.load_state_dict({"weight": conv.weight, "bias": conv.bias})
    other = spectral_norm(other)
    norm = other.parametrizations.weight[0]
    norm._u.copy_(conv.spectral.u)
    norm._v.copy_(conv.spectral.v)
    return other


def test_the_first_vectors_are_torchs():
    torch.manual_seed(3)
    conv = Conv2d(16, 32, 3, 1, 1, with_relu=False, is_spectral=True)
    torch.manual_seed(3)
    norm = spectral_norm(nn.Conv2d(16, 32, 3, padding=1)).parametrizations.weight[0]
    conv.spectral.iterate(conv.weight)  # torch's spectral_norm() makes one power iteration when it is called.
    torch.testing.assert_close(conv.spectral.u, norm._u)
    torch.testing.assert_close(conv.spectral.v, norm._v)


def test_updates_are_those_of_torchs_spectral_norm():
    torch.manual_seed(0)
    conv = Conv2d(16, 32, 3, 1, 1, with_relu=False, is_spectral=True)
    other = torchs(conv)
    norm, original = other.parametrizations.weight[0], other.parametrizations.weight.original
    for step in range(8):
        x = torch.randn(5, 16, 11, 9)
        conv.train(step != 5), other.train(step != 5)
        got, want = conv(x), other(x)
        # Before the backward pass of a call, a second call of the layer changes the power-iteration vectors.
        (got * conv(x).detach()).sum().backward()
        (want * other(x).detach()).sum().backward()
        torch.testing.assert_close(got, want, rtol=1e-4, atol=1e-5)
        torch.testing.assert_close(conv.weight.grad, original.grad, rtol=1e-3, atol=1e-3)
        with torch.no_grad():
            for weight in (conv.weight, original):
                weight -= 1e-2 * weight.grad / weight.grad.norm()
                weight.grad = None
        torch.testing.assert_close(conv.spectral.u, norm._u, rtol=1e-4, atol=1e-5)
        torch.testing.assert_close(conv.spectral.v, norm._v, rtol=1e-4, atol=1e-5)
    largest = torch.linalg.matrix_norm(conv.spectral(conv.weight).detach().flatten(1), 2)
    assert float(largest) == pytest.approx(1, rel=0.02)


@pytest.mark.parametrize("size", [(84, 84), (104, 80)])
def test_features_are_those_of_the_description(size):
    torch.manual_seed(0)
    net = BTRNet(4, *size, hidden=0)
    obs, x = torch.randint(256, (2, 4, *size), dtype=torch.uint8), None
    with training_mode(net):
        convs = {name: torchs(m).train() for name, m in net.named_modules() if getattr(m, "spectral", None) is not None}
        assert len(convs) == 12
        x = obs / 255
        for i, channels in enumerate((32, 64, 64)):
            stem = getattr(net, f"conv_{i}").conv
            assert stem.out_channels == channels and stem.spectral is None
            x = F.max_pool2d(F.conv2d(x, stem.weight, stem.bias, padding=1), 3, 2, 1)
            for j in (0, 1):
                one, two = (convs[f"conv_{i}.blocks.{j}.conv_{k}"] for k in (0, 1))
                x = x + two(torch.relu(one(torch.relu(x))))
        want = F.adaptive_max_pool2d(torch.relu(x), 6).permute(0, 2, 3, 1).flatten(1)
        got = net(obs)
    assert got.shape == (2, 2304) and BTRNet.hidden == 512
    torch.testing.assert_close(got, want, rtol=1e-3, atol=1e-4)


@pytest.mark.slow
def test_a_network_without_memory_does_not_import_torchs_compiler():
    code = (
        "import sys, torch; from accel_rl.models.residual import BTRNet\n"
        "with torch.device('meta'): BTRNet(4, 84, 84)\n"
        "assert 'torch._inductor' not in sys.modules"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True).returncode == 0


def test_the_ablations_are_subclasses():
    a, b = (cls(4, 84, 84, hidden=0) for cls in (WithoutSpectralNorm, WithoutPooling))
    assert not any(name.endswith(".u") for name in network_state(a)) and a.out_features == 2304
    assert sum(name.endswith(".u") for name in network_state(b)) == 12 and b.out_features == 64 * 11 * 11
    assert find_network(f"{__name__}:WithoutPooling") is WithoutPooling and find_network("btr") is BTRNet


@pytest.mark.parametrize("layer_norm", ["none", "before", "after", "before-channels"])
def test_layer_norms_and_spectral_norms_combine(layer_norm):
    torch.manual_seed(0)
    net = Small(4, 40, 33, layer_norm=layer_norm)
    with training_mode(net):
        net(torch.randint(256, (3, 4, 40, 33), dtype=torch.uint8)).backward(torch.randn(3, 32))
    assert all(p.grad is not None and p.grad.abs().sum() > 0 for p in net.parameters())
    # Initial weights are orthogonal, so that the first power iteration gives their exact spectral norm.
    for block in (b for s in list(net.convolutions)[:2] for b in s.blocks):
        rows = block.conv_0.spectral.eval()(block.conv_0.weight).detach().flatten(1).norm(dim=1)
        torch.testing.assert_close(rows, torch.ones(8))


@torch.no_grad()
def test_the_vectors_are_state_and_change_in_updates_alone():
    torch.manual_seed(0)
    spec = EnvSpec("pictures", (40, 33), "uint8", 3, 4)
    net = QNetwork(spec, f"{__name__}:Small").eval()
    flat = FlatParameters(net)
    obs = torch.randint(256, (2, 4, 40, 33), dtype=torch.uint8)
    before = {name: x.clone() for name, x in network_state(net).items()}
    acted = net.q(obs)
    flat.data.mul_(1.1).add_(torch.randn_like(flat.data) * 0.01)
    net.q(obs)
    vectors = [name for name in before if name.endswith((".u", ".v"))]
    assert len(vectors) == 2 * 8 and all(torch.equal(before[n], network_state(net)[n]) for n in vectors)
    assert has_modes(net) and not has_modes(QNetwork(spec, "impala"))
    with training_mode(net):
        net.q(obs)
    assert not any(torch.equal(before[n], network_state(net)[n]) for n in vectors)
    q = net.q(obs)
    other = copy.deepcopy(net)
    assert torch.equal(other.q(obs), q)
    load_network(net, before, "it")
    assert torch.equal(net.q(obs), acted)
    copy_network(other, net)
    assert torch.equal(net.q(obs), q)


@torch.no_grad()
def test_the_target_network_has_the_vectors():
    config = replace(default_config("dqn").algo, network=f"{__name__}:Small", double=True)
    algo = DQN(config, SPEC, T=4, B=8)
    model, obs = algo.agent.model, torch.randint(256, (2, 4, *SPEC.frame_shape), dtype=torch.uint8)
    with training_mode(model):
        model.body.convolutions[0].blocks[0].conv_0.weight.mul_(torch.rand(8, 1, 1, 1))
        model.q(obs)
    assert not torch.equal(model.q(obs), algo.target.q(obs))
    algo.target_network.update()
    assert torch.equal(model.q(obs), algo.target.q(obs))
