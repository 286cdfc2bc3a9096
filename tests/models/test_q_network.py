"""Networks of action values: output shapes, dueling streams, noisy layers."""

import pytest
import torch

from accel_rl.data.spec import EnvSpec
from accel_rl.models.noisy import NoisyLinear, draw_noise, noise_counters
from accel_rl.models.q_network import CategoricalQNetwork, QNetwork
from tests.marks import slow

PICTURES = EnvSpec("pictures", (104, 80), "uint8", 6, 4)
VECTORS = EnvSpec("vectors", (4,), "float32", 2)


def observations(spec: EnvSpec, n: int) -> torch.Tensor:
    g = torch.Generator().manual_seed(0)
    if spec.is_image:
        return torch.randint(0, 256, (n, spec.stack, *spec.frame_shape), dtype=torch.uint8, generator=g)
    return torch.randn(n, *spec.frame_shape, generator=g)


@pytest.mark.parametrize("spec", [PICTURES, VECTORS], ids=lambda s: s.name)
@pytest.mark.parametrize(("is_dueling", "sigma"), [(False, 0.0), (True, 0.5), slow(True, 0.0), slow(False, 0.5)])
def test_shapes(spec, is_dueling, sigma):
    obs = observations(spec, 3)
    assert QNetwork(spec, "nature", is_dueling, sigma).q(obs).shape == (3, spec.n_actions)
    net = CategoricalQNetwork(spec, "dqn", 51, -10, 10, is_dueling=is_dueling, sigma=sigma)
    assert net(obs).shape == (3, spec.n_actions, 51)
    assert net.q(obs).shape == (3, spec.n_actions)
    assert float(net.q(obs).detach().abs().max()) < 3


def test_the_papers_network_has_its_size():
    """The DQN-Net of Stooke & Abbeel has 3.63 M parameters, with observations of 104x80 and 6 actions."""
    n = sum(p.numel() for p in QNetwork(PICTURES, "dqn").parameters())
    assert n == pytest.approx(3.63e6, rel=0.01)


def test_dueling_streams_halve_the_power_of_the_shared_gradient():
    torch.manual_seed(0)
    net = QNetwork(PICTURES, "nature", is_dueling=True)
    obs = observations(PICTURES, 2)
    net.q(obs).square().sum().backward()
    scaled = [p.grad.clone() for p in net.body.parameters()]
    streams = [p.grad.clone() for p in net.advantage.parameters()]
    net.zero_grad()
    x = net.body(obs)
    q = net.value(x, True) + net.advantage(x, True) - net.advantage(x, True).mean(1, keepdim=True)
    torch.testing.assert_close(q, net.q(obs))
    q.square().sum().backward()
    for a, p in zip(scaled, net.body.parameters(), strict=True):
        torch.testing.assert_close(a, p.grad * 2**-0.5, rtol=1e-4, atol=1e-7)
    for a, p in zip(streams, net.advantage.parameters(), strict=True):
        torch.testing.assert_close(a, p.grad, rtol=1e-4, atol=1e-7)


def test_acting_and_learning_see_the_same_values():
    net = QNetwork(PICTURES, "dqn")
    obs = observations(PICTURES, 5)
    torch.testing.assert_close(net.q(obs), net.q(obs.float().contiguous() / 255), rtol=1e-4, atol=1e-5)


def test_noise_is_factorised_and_can_be_left_out():
    torch.manual_seed(0)
    layer = NoisyLinear(7, 5)
    x = torch.randn(3, 7)
    quiet = layer(x, noisy=False)
    torch.testing.assert_close(layer(x), quiet)  # none was drawn yet
    first, stride = noise_counters([layer])
    draw_noise([layer], first)
    weight = layer.weight + layer.sigma_weight * torch.outer(layer.noise_out, layer.noise_in)
    torch.testing.assert_close(layer(x), x @ weight.T + layer.bias + layer.sigma_bias * layer.noise_out)
    torch.testing.assert_close(layer(x, noisy=False), quiet)
    assert float(layer.sigma_weight[0, 0].detach()) == pytest.approx(0.5 / 7**0.5)
    network = QNetwork(PICTURES, "data-efficient", is_dueling=True, sigma=0.1)
    for noisy in network._noisy_layers():
        assert float(noisy.sigma_bias[0].detach()) == pytest.approx(0.1 / noisy.in_features**0.5)
    draws = []
    for seed in range(4000):
        draw_noise([layer], first + seed * stride)
        draws.append(layer.noise_in.clone())
    noise = torch.stack(draws)
    # f(e) = sgn(e) sqrt|e|: mean 0, variance E|e| = sqrt(2 / pi)
    assert float(noise.mean()) == pytest.approx(0, abs=0.02)
    assert float(noise.var()) == pytest.approx((2 / torch.pi) ** 0.5, rel=0.03)


def splitmix64(x: int) -> int:
    """The finalizer of SplitMix64 (Steele et al. 2014), computed with Python's integers."""
    x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9 % 2**64
    x = (x ^ x >> 27) * 0x94D049BB133111EB % 2**64
    return x ^ x >> 31


@pytest.mark.parametrize("seed", [0, 3, 2**62 - 1])
def test_each_vector_of_noise_has_its_own_seed(seed):
    network = QNetwork(VECTORS, "dqn", is_dueling=True, sigma=0.5)
    network.resample(torch.tensor(seed))
    layers = [m for m in network.modules() if isinstance(m, NoisyLinear)]
    assert len(layers) == 4
    for i, layer in enumerate(layers):
        for j, noise in enumerate((layer.noise_in, layer.noise_out)):
            n = len(noise)
            start = (2 * (seed * 4 + i) + j) * n
            hashes = [splitmix64((start + k) * 0x9E3779B97F4A7C15 % 2**64) for k in range(1, n + 1)]
            uniform = torch.tensor([(x >> 11) + 0.5 for x in hashes], dtype=torch.float64) * 2.0**-53
            e = (torch.erfinv(2 * uniform - 1) * 2**0.5).float()
            assert torch.equal(noise, e.sign() * e.abs().sqrt())
