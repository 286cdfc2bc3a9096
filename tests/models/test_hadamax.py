"""The Hadamax network equals the equations of its paper, which the tests compute in float64 numpy (channels last)."""

import math

import numpy as np
import pytest
import torch

from accel_rl.algos.pqn import PQN
from accel_rl.data.spec import EnvSpec
from accel_rl.kernels.frames import FrameStacks
from accel_rl.models.actor_critic import ActorCritic
from accel_rl.models.convolution import ConvNet
from accel_rl.models.hadamax import HadamaxNet
from accel_rl.models.layers import variance_scaling_
from accel_rl.models.networks import find_network
from accel_rl.models.q_network import QNetwork
from accel_rl.settings.presets import with_preset
from accel_rl.settings.train import default_config

SPEC = EnvSpec("pictures", (84, 84), "uint8", 5, 4)


def windows(x, size, stride, fill):
    """x [N, H, W, C] -> [N, rows, columns, size, size, C], padded as TensorFlow's guide defines SAME."""
    ends = []
    for n in x.shape[1:3]:
        total = max(size - (n % stride or stride), 0)
        ends.append((total // 2, total - total // 2))
    x = np.pad(x, [(0, 0), *ends, (0, 0)], constant_values=fill)
    rows, columns = ((n - size) // stride + 1 for n in x.shape[1:3])
    out = np.empty((len(x), rows, columns, size, size, x.shape[3]))
    for i in range(rows):
        for j in range(columns):
            out[:, i, j] = x[:, i * stride : i * stride + size, j * stride : j * stride + size]
    return out


def normed_gelu(p, name, x):
    mean, variance = x.mean(-1, keepdims=True), x.var(-1, keepdims=True)
    x = (x - mean) / np.sqrt(variance + 1e-6) * p[f"{name}.norm.weight"] + p[f"{name}.norm.bias"]
    return 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))


def conv(p, name, x):
    weight = p[f"{name}.weight"]  # [D, C, k, k]
    return np.einsum("nijabc,dcab->nijd", windows(x, weight.shape[2], 1, 0.0), weight) + p[f"{name}.bias"]


def encoder(p, name, obs):
    """obs [N, S, H, W] -> features [N, F]."""
    x = obs.transpose(0, 2, 3, 1) / 255
    for i, (size, stride) in enumerate([(4, 4), (2, 2), (3, 1)]):
        block = f"{name}.conv_{i}"
        a, b = (normed_gelu(p, f"{block}.gelu_{j}", conv(p, f"{block}.conv_{j}", x)) for j in (0, 1))
        x = windows(a * b, size, stride, -np.inf).max((3, 4))
    return x.reshape(len(x), -1)


def arrays(net):
    """Randomize the network's biases and norm parameters in place. Returns all parameters in float64 by name."""
    for p in net.parameters():
        if p.dim() == 1:
            torch.nn.init.normal_(p, 0.4, 0.5)
    return {name: p.detach().double().numpy() for name, p in net.named_parameters()}


@pytest.mark.parametrize("size", [(84, 84), (37, 30)])
def test_action_values_are_the_equations(size):
    torch.manual_seed(0)
    net = QNetwork(EnvSpec("pictures", size, "uint8", 5, 4), "hadamax")
    p, obs = arrays(net), torch.randint(256, (2, 4, *size), dtype=torch.uint8)
    x = encoder(p, "body", obs.numpy())
    assert size != (84, 84) or x.shape == (2, 11 * 11 * 64)
    x = normed_gelu(p, "advantage.relu", x @ p["advantage.hidden.weight"].T + p["advantage.hidden.bias"])
    want = x @ p["advantage.out.weight"].T + p["advantage.out.bias"]
    q = net.q(obs)
    np.testing.assert_allclose(q.detach(), want, rtol=1e-3, atol=1e-3 * np.abs(want).max())
    q.sum().backward()
    assert all(w.grad is not None and w.grad.abs().sum() > 0 for w in net.parameters() if w.numel())


def test_other_heads_follow_its_fully_connected_layer():
    torch.manual_seed(0)
    net = ActorCritic(SPEC, "hadamax")
    p, obs = arrays(net), torch.randint(256, (2, 4, 84, 84), dtype=torch.uint8)
    x = encoder(p, "body", obs.numpy())
    x = normed_gelu(p, "body.relu_0", x @ p["body.fc_0.weight"].T + p["body.fc_0.bias"])
    want = x @ p["heads.policy.weight"].T + p["heads.policy.bias"]
    np.testing.assert_allclose(net(obs)[0].detach(), want, rtol=1e-3, atol=1e-3)


def test_frames_that_are_not_gathered():
    net, frames = HadamaxNet(4, 84, 84), torch.randint(256, (7, 1, 84, 84), dtype=torch.uint8)
    stacks = FrameStacks(frames, torch.tensor([0, 3]), torch.zeros(2).long(), torch.tensor([3, 1]).byte(), 4)
    with torch.no_grad():
        torch.testing.assert_close(net(stacks), net(stacks.gather()))


@pytest.mark.parametrize(
    ("options", "outputs"),
    [({"is_dueling": True}, 2), ({"sigma": 0.5}, 1), ({"hidden": (96,)}, 1), ({"layer_norm": "after"}, 1)],
)
def test_it_combines_with_the_options_of_q_learning(options, outputs):
    net = QNetwork(SPEC, "hadamax", **options)
    assert net.q(torch.randint(256, (2, 4, 84, 84), dtype=torch.uint8)).shape == (2, 5)
    norms = [m for m in net.modules() if isinstance(m, torch.nn.LayerNorm) and m.weight.numel()]
    assert len(norms) == 6 + outputs and {m.eps for m in norms} == {1e-6}


def test_the_first_weights_are_those_of_jax():
    torch.manual_seed(0)
    net = QNetwork(SPEC, "hadamax")
    first = net.body.convolutions[0].conv_1
    dense, head = net.advantage.hidden, net.advantage.out
    # Variances of weights: Xavier 2 / (inputs + outputs), He 2 / inputs, LeCun 1 / inputs.
    for layer, variance in ((first, 2 / (64 * 36)), (dense, 2 / 7744), (head, 1 / 512)):
        assert float(layer.weight.detach().var()) == pytest.approx(variance, rel=0.05)
        assert float(layer.weight.detach().abs().max()) < 2.28 * variance**0.5  # 2 / 0.8796
        assert not layer.bias.detach().any()
    other = variance_scaling_(torch.nn.Linear(512, 512), 1.0, "fan_avg", "normal")
    assert float(other.weight.detach().var()) == pytest.approx(1 / 512, rel=0.05)


def test_the_preset_builds_it():
    config = with_preset(default_config("pqn"), "hadamax2025")
    body = PQN(config.algo, SPEC, T=4, B=8).agent.model.body
    assert isinstance(body, HadamaxNet)
    assert find_network("hadamax").has_own_norms and not ConvNet.has_own_norms
    assert sum(p.numel() for p in HadamaxNet(4, 84, 84).parameters()) == 155_968 + 640 + 3_965_440 + 1_024
