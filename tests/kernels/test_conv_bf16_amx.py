"""The compiled bfloat16 convolutions equal torch's float64 convolutions up to the rounding of bfloat16, forward and
backward."""

import pytest
import torch
import torch.nn.functional as F

from accel_rl.kernels import native
from accel_rl.kernels.conv_bf16_amx import conv_bf16_amx, supports
from accel_rl.models.networks import NETWORKS
from accel_rl.models.precision import autocast_for

if native.compiled() is None or not native.compiled().has_amx():
    pytest.skip("no compiler built the extension, or this CPU has no AMX", allow_module_level=True)

ROUNDING = 2**-8  # of bfloat16, relative


def made(N, C, H, W, D, k, of_bytes, seed=0):
    g = torch.Generator().manual_seed(seed)
    weight = torch.randn(D, C, k, k, generator=g) / (C * k * k) ** 0.5
    if of_bytes:
        x = torch.randint(0, 256, (N, C, H, W), dtype=torch.uint8, generator=g)
    else:
        x = torch.randn(N, C, H, W, generator=g).relu().to(torch.bfloat16).contiguous(memory_format=torch.channels_last)
    return x, weight, torch.randn(D, generator=g)


def gradients(x, weight, bias, s, p):
    x = x if x.dtype == torch.uint8 else x.detach().requires_grad_()
    w, b = weight.clone().requires_grad_(), bias.clone().requires_grad_()
    out = conv_bf16_amx(x, w, b, s, p)
    shade = torch.linspace(-1, 1, out.numel()).reshape(out.shape).mul(50).sin().to(torch.bfloat16)
    out.backward(shade)
    return out.detach(), w.grad, b.grad, x.grad, shade


# (shape of a picture, output channels): as in Mnih et al., as in Stooke & Abbeel, and unusual shapes
FIRST = [((4, 84, 84), 32), ((4, 104, 80), 16), ((4, 8, 8), 16), ((4, 21, 50), 48)]


@pytest.mark.parametrize("N", [1, 3, 33])
@pytest.mark.parametrize(("size", "D"), FIRST)
def test_of_pictures(N, size, D):
    compare(*made(N, *size, D, 8, True), 4, 0, 255)


# (kernel size, stride, padding) of the networks' second and third layers, and unusual values
LATER = [(4, 2, 0), (4, 2, 1), (3, 1, 0), (3, 1, 1), (8, 4, 2), (1, 1, 0), (6, 2, 2)]


@pytest.mark.parametrize("N", [1, 33])
@pytest.mark.parametrize(("C", "D", "H", "W"), [(32, 64, 20, 20), (64, 64, 9, 9), (32, 32, 25, 19), (96, 32, 8, 11)])
@pytest.mark.parametrize(("k", "s", "p"), LATER)
def test_of_what_a_layer_made(N, C, D, H, W, k, s, p):
    compare(*made(N, C, H, W, D, k, False), s, p, 1)


def test_sixteen_channels_before_it():
    compare(*made(5, 16, 25, 19, 32, 4, False), 2, 1, 1)


def compare(x, weight, bias, s, p, scale):
    out, d_weight, d_bias, d_x, shade = gradients(x, weight, bias, s, p)
    w = (weight / scale).to(torch.bfloat16).double().requires_grad_()  # as it is multiplied
    b, exact = bias.double().requires_grad_(), x.double().requires_grad_()
    before = F.conv2d(exact, w, b, s, p)
    torch.testing.assert_close(out.double(), before.relu(), rtol=ROUNDING, atol=1e-4)
    (before * (out > 0) * shade.double()).sum().backward()
    at_most = 1e-5 * len(x) ** 0.5
    exact_weight = w.grad / scale
    torch.testing.assert_close(d_weight.double(), exact_weight, rtol=1e-4, atol=at_most * exact_weight.abs().max())
    torch.testing.assert_close(d_bias.double(), b.grad, rtol=1e-4, atol=at_most * b.grad.abs().max())
    if d_x is not None:
        torch.testing.assert_close(d_x.double(), exact.grad, rtol=ROUNDING, atol=1e-4)
    assert out.is_contiguous(memory_format=torch.channels_last)


def test_the_bits_do_not_depend_on_the_threads_or_on_who_is_beside():
    threads = torch.get_num_threads()
    for args in (made(70, 4, 104, 80, 16, 8, True), made(70, 32, 20, 20, 64, 4, False)):
        s = 4 if args[0].dtype == torch.uint8 else 2
        found = []
        try:
            for n in (1, 2, 3):
                torch.set_num_threads(n)
                found.append([t for t in gradients(*args, s, 0) if t is not None])
        finally:
            torch.set_num_threads(threads)
        for other in found[1:]:
            assert all(torch.equal(a, b) for a, b in zip(found[0], other, strict=True))
        assert torch.equal(conv_bf16_amx(args[0][9:11], *args[1:], s, 0), found[0][0][9:11])


def test_observations_that_lie_apart():
    windows, weight, bias = made(9, 5, 104, 80, 32, 8, True)
    for obs in (windows[:, :4], windows[:, 1:], windows[::2, :4], windows[:, [0, 2, 1, 3]].transpose(2, 3)):
        apart = gradients(obs, weight[:, :4].contiguous(), bias, 4, 0)
        whole = gradients(obs.contiguous(), weight[:, :4].contiguous(), bias, 4, 0)
        assert all(torch.equal(a, b) for a, b in zip(apart[:3], whole[:3], strict=True))


def test_a_number_that_is_not_finite_is_seen():
    x, weight, bias = made(2, 32, 20, 20, 64, 4, False)
    weight[5, 3, 1, 1] = torch.nan
    assert conv_bf16_amx(x, weight, bias, 2, 0)[:, 5].isnan().all()
    x[1, 0, 0, 0] = torch.inf
    assert not gradients(x, weight.nan_to_num(0), bias, 2, 0)[1].isfinite().all()


def test_what_it_does_not_support():
    obs, weight, _ = made(2, 4, 84, 84, 16, 8, True)
    later, kernel, _ = made(2, 32, 20, 20, 64, 4, False)
    assert not supports(obs, weight, 4, 0)  # float32 is asked for
    with autocast_for("bfloat16", torch.device("cpu")):
        assert supports(obs, weight, 4, 0)
        assert supports(later, kernel, 2, 1)
        assert not supports(obs, weight, 2, 0)
        assert not supports(obs[:, :3], weight[:, :3], 4, 0)
        assert not supports(obs, weight[:8], 4, 0)
        assert not supports(obs.float(), weight, 4, 0)
        assert not supports(later.float(), kernel, 2, 1)
        assert not supports(later, kernel, 3, 0)
        assert not supports(later, kernel.double(), 2, 1)
        assert not supports(later[..., :2], kernel, 2, 0)


NOT_ALL = {"impala": 9, "btr": 14, "hadamax": 4}
"""Maps networks with some unsupported convolutions to the number of convolutions that the bfloat16 kernels compute."""


@pytest.mark.parametrize("name", NETWORKS)
def test_a_network_learns_nearly_what_it_does_by_the_library(name, monkeypatch):
    torch.manual_seed(0)
    net = NETWORKS[name](4, 104, 80).eval()  # In train mode, each forward pass would change the spectral norms.
    obs = torch.randint(0, 256, (64, 4, 104, 80), dtype=torch.uint8)

    def learned():
        net.zero_grad()
        with autocast_for("bfloat16", torch.device("cpu")):
            net(obs).float().square().mean().backward()
        return torch.cat([p.grad.flatten() for p in net.parameters()])

    calls = []
    monkeypatch.setattr("accel_rl.kernels.conv_bf16_amx.conv_bf16_amx", lambda *a: calls.append(a) or conv_bf16_amx(*a))
    compiled = learned()
    assert len(calls) == NOT_ALL.get(name, len(net.layers))
    monkeypatch.setattr("accel_rl.kernels.conv_bf16_amx.supports", lambda *_: False)
    by_library = learned()
    assert torch.cosine_similarity(compiled, by_library, dim=0) > 0.999
    assert native.compiled().has_amx()
