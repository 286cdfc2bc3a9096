"""The compiled first layer (uint8 pictures, convolution, ReLU) equals torch's in float64 up to the rounding of float32,
forward and backward."""

import pytest
import torch
import torch.nn.functional as F

from accel_rl.kernels import native
from accel_rl.kernels.conv_u8 import conv_u8, supports
from accel_rl.kernels.frames import FrameStacks
from accel_rl.models.networks import NETWORKS
from tests.marks import slow

if native.compiled() is None or not native.compiled().vectors:
    pytest.skip("no compiler built the extension, or this CPU has no AVX2", allow_module_level=True)


def made(N, S, H, W, channels, seed=0):
    g = torch.Generator().manual_seed(seed)
    obs = torch.randint(0, 256, (N, S, H, W), dtype=torch.uint8, generator=g)
    weight = torch.randn(channels, S, 8, 8, generator=g) / 16
    return obs, weight, torch.randn(channels, generator=g)


def gradients(function, obs, weight, bias):
    w, b = weight.clone().requires_grad_(), bias.clone().requires_grad_()
    out = function(obs, w, b)
    shade = torch.linspace(-1, 1, out.numel(), dtype=out.dtype).reshape(out.shape).sin()
    (out * shade).sum().backward()
    return out.detach(), w.grad, b.grad


# picture sizes of Stooke & Abbeel and of Mnih et al., the smallest supported size, and unusual sizes
@pytest.mark.parametrize(
    "size", [(4, 104, 80), (4, 84, 84), (4, 8, 8), (1, 8, 8), (4, 21, 50), (3, 21, 50), (2, 12, 180)]
)
@pytest.mark.parametrize("channels", [16, 32, 48, 64])
@pytest.mark.parametrize("N", [1, slow(3), 33])
def test_it_is_the_convolution(N, channels, size):
    obs, weight, bias = made(N, *size, channels)
    got = gradients(conv_u8, obs, weight, bias)

    def exact(obs, weight, bias):
        out = F.conv2d(obs.double() / 255, weight, bias, 4)
        wrong = (out > 0) != (got[0] > 0)  # sums near 0
        assert wrong.float().mean() < 1e-4 and (out[wrong].abs() < 1e-5).all()
        return out * (got[0] > 0)

    want = gradients(exact, obs, weight.double(), bias.double())
    for a, b in zip(got, want, strict=True):
        terms = 1 if b is want[0] else want[0].numel() / channels
        torch.testing.assert_close(a.double(), b, rtol=1e-5, atol=1e-5 + 1e-6 * terms)  # float32 sums round.
    assert got[0].is_contiguous(memory_format=torch.channels_last)


def test_it_is_as_exact_as_the_library():
    """With weights of very different sizes, the rounding errors of the kernel are not larger than those of torch."""
    obs, weight, bias = made(16, 4, 84, 84, 32)
    weight *= torch.rand(weight.shape) ** 8
    bias += 3  # for positive outputs

    def library(obs, weight, bias):
        return torch.relu(F.conv2d(obs.to(weight.dtype) / 255, weight, bias, 4))

    exact = gradients(library, obs, weight.double(), bias.double())
    worst = [[(a - b).abs().max() for a, b in zip(gradients(way, obs, weight, bias), exact, strict=True)]
             for way in (conv_u8, library)]  # fmt: skip
    for ours, others in zip(*worst, strict=True):
        assert ours < 2 * others


def test_the_bits_do_not_depend_on_the_threads_or_on_who_is_beside():
    obs, weight, bias = made(70, 4, 104, 80, 16)
    threads = torch.get_num_threads()
    try:
        found = []
        for n in (1, 2, 3):
            torch.set_num_threads(n)
            found.append(gradients(conv_u8, obs, weight, bias))
    finally:
        torch.set_num_threads(threads)
    for other in found[1:]:
        assert all(torch.equal(a, b) for a, b in zip(found[0], other, strict=True))
    assert torch.equal(conv_u8(obs[9:11], weight, bias), found[0][0][9:11])


def test_observations_that_lie_apart():
    windows, weight, bias = made(9, 5, 104, 80, 32)
    for obs in (windows[:, :4], windows[:, 1:], windows[::2, :4], windows[:, [0, 2, 1, 3]].transpose(2, 3)):
        apart = gradients(conv_u8, obs, weight[:, :4].contiguous(), bias)
        whole = gradients(conv_u8, obs.contiguous(), weight[:, :4].contiguous(), bias)
        assert all(torch.equal(a, b) for a, b in zip(apart, whole, strict=True))


def test_what_it_does_not_support():
    obs, weight, _ = made(2, 4, 84, 84, 16)
    assert supports(obs, weight, 4, 0)
    assert not supports(obs.float(), weight, 4, 0)
    assert not supports(obs, weight.double(), 4, 0)
    assert not supports(obs, weight[:8], 4, 0)
    assert not supports(obs, weight[..., :4, :4], 4, 0)
    assert not supports(obs, weight, 2, 0)
    assert not supports(obs, weight, 4, 1)
    with torch.autocast("cpu", torch.bfloat16):
        assert not supports(obs, weight, 4, 0)


def test_stacks_that_are_not_gathered():
    """The kernel computes bitwise equal results from a rollout's frames as from gathered stacks of frames.

    A forward pass that records gradients is only supported for frame stacks that are copied to one tensor.
    """
    frames = torch.randint(0, 256, (7, 5, 40, 36), dtype=torch.uint8)
    age = torch.tensor([3, 0, 2], dtype=torch.uint8)
    stacks = FrameStacks(frames, torch.tensor([0, 3, 1]), torch.tensor([4, 0, 2]), age, 4)
    weight, bias = torch.randn(16, 4, 8, 8), torch.randn(16)
    assert not supports(stacks, weight, 4, 0)
    with torch.no_grad():
        assert supports(stacks, weight, 4, 0)
        assert torch.equal(conv_u8(stacks, weight, bias), conv_u8(stacks.gather(), weight, bias))
        apart = FrameStacks(frames.transpose(2, 3), stacks.t, stacks.b, age, 4)
        assert not supports(apart, weight, 4, 0)


@pytest.mark.parametrize("name", NETWORKS)
def test_networks_are_the_same_with_it_and_without(name, monkeypatch):
    obs = made(6, 4, 104, 80, 16)[0]
    torch.manual_seed(0)
    net = NETWORKS[name](4, 104, 80).eval()  # In train mode, each forward pass would change the spectral norms.
    found = []
    for compiled in (True, False):
        if not compiled:
            monkeypatch.setattr(native, "compiled", lambda: None)
        net.zero_grad()
        out = net(obs)
        out.square().sum().backward()
        found.append([out.detach(), *(p.grad.clone() for p in net.parameters())])
    for a, b in zip(*found, strict=True):
        if name in ("impala", "btr"):  # nearly equal maxima
            assert (a - b).norm() < 2e-3 * b.norm()
        else:
            torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-5 * float(b.abs().max()))


def test_nothing_but_a_number_comes_of_a_gradient_that_is_not_one():
    obs, weight, bias = made(4, 4, 84, 84, 16)
    w = weight.requires_grad_()
    out = conv_u8(obs, w, bias + 10)  # for positive outputs
    (out * torch.nan).sum().backward()
    assert w.grad.isnan().all()


def test_a_weight_that_is_not_a_number_is_seen():
    obs, weight, bias = made(2, 4, 84, 84, 32)
    weight[5, 3, 1, 1] = torch.nan
    out = conv_u8(obs, weight, bias)
    assert out[:, 5].isnan().all() and out[:, :5].isfinite().all()
