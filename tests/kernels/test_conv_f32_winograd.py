"""The compiled float32 convolutions equal torch's float64 convolutions up to the rounding of float32, forward and
backward."""

import pytest
import torch
import torch.nn.functional as F

from accel_rl.kernels import native
from accel_rl.kernels.conv_f32_winograd import conv_f32_winograd, supports

if native.compiled() is None or not native.compiled().vectors:
    pytest.skip("no compiler built the extension, or this CPU has no AVX2", allow_module_level=True)


def made(N, C, H, W, D, k, seed=0):
    g = torch.Generator().manual_seed(seed)
    x = torch.randn(N, C, H, W, generator=g).contiguous(memory_format=torch.channels_last)
    return x, torch.randn(D, C, k, k, generator=g) / (C * k * k) ** 0.5, torch.randn(D, generator=g)


def gradients(function, x, weight, bias):
    leaves = [t.detach().clone().requires_grad_() for t in (x, weight, bias)]
    out = function(*leaves)
    shade = torch.linspace(-1, 1, out.numel(), dtype=out.dtype).reshape(out.shape).mul(50).sin()
    (out * shade).sum().backward()
    return [out.detach(), *(t.grad for t in leaves)]


# (kernel size, stride, padding) of the networks' second and third layers, and unusual values
KERNELS = [(4, 2, 0), (4, 2, 1), (3, 1, 0), (3, 1, 1), (2, 1, 0), (6, 2, 2), (6, 3, 2), (3, 1, 3)]
# (input channels, output channels, height, width): multiples of 64, 32 and 16 channels
SIZES = [(32, 64, 20, 20), (64, 64, 9, 9), (16, 32, 25, 19), (48, 16, 8, 11), (16, 96, 7, 13), (80, 128, 7, 7)]


@pytest.mark.parametrize("N", [1, 33])
@pytest.mark.parametrize(("C", "D", "H", "W"), SIZES)
@pytest.mark.parametrize(("k", "s", "p"), KERNELS)
def test_it_is_the_convolution(N, C, D, H, W, k, s, p):
    args = made(N, C, H, W, D, k)
    got = gradients(lambda x, w, b: conv_f32_winograd(x, w, b, s, p), *args)

    def exact(x, weight, bias):
        out = F.conv2d(x, weight, bias, s, p)
        wrong = (out > 0) != (got[0] > 0)  # sums near 0
        assert wrong.float().mean() < 1e-4 and (out[wrong].abs() < 1e-5).all()
        return out * (got[0] > 0)

    want = gradients(exact, *(t.double() for t in args))
    for a, b, terms in zip(got, want, [C * k * k, D * k * k, N * 400, N * 400], strict=True):
        torch.testing.assert_close(a.double(), b, rtol=1e-5, atol=1e-5 + 3e-7 * terms)  # float32 sums round.
    assert got[0].is_contiguous(memory_format=torch.channels_last)


def test_the_bits_do_not_depend_on_the_threads_or_on_who_is_beside():
    x, weight, bias = made(70, 32, 25, 19, 64, 4)

    def layer(x, w, b):
        return conv_f32_winograd(x, w, b, 2, 1)

    threads, found = torch.get_num_threads(), []
    try:
        for n in (1, 2, 3):
            torch.set_num_threads(n)
            found.append(gradients(layer, x, weight, bias))
    finally:
        torch.set_num_threads(threads)
    for other in found[1:]:
        assert all(torch.equal(a, b) for a, b in zip(found[0], other, strict=True))
    assert torch.equal(layer(x[9:11], weight, bias), found[0][0][9:11])


def test_a_weight_that_was_changed_in_place_counts_at_once():
    x, weight, bias = made(3, 64, 9, 9, 64, 3)
    before = conv_f32_winograd(x, weight, bias, 1, 0)
    weight[7] *= 2
    after = conv_f32_winograd(x, weight, bias, 1, 0)
    assert not torch.equal(before[:, 7], after[:, 7]) and torch.equal(before[:, :7], after[:, :7])


def test_pictures_in_another_order_of_memory():
    x, weight, bias = made(5, 16, 12, 9, 32, 3)
    want = conv_f32_winograd(x, weight, bias, 1, 1)
    assert torch.equal(conv_f32_winograd(x.contiguous(), weight, bias, 1, 1), want)
    assert torch.equal(conv_f32_winograd(torch.stack([x, x], 1).flatten(0, 1)[::2], weight, bias, 1, 1), want)


def test_a_number_that_is_not_finite_is_seen():
    x, weight, bias = made(2, 32, 20, 20, 64, 4)
    weight[5, 3, 1, 1] = torch.nan
    assert conv_f32_winograd(x, weight, bias, 2, 0)[:, 5].isnan().all()
    x[1, 0, 0, 0] = torch.inf
    got = gradients(lambda x, w, b: conv_f32_winograd(x, w, b, 2, 0), x, weight.nan_to_num(0), bias)
    assert not got[2].isfinite().all()


def test_what_it_does_not_support():
    x, weight, _ = made(2, 32, 20, 20, 64, 4)
    assert supports(x, weight, 2, 1)
    assert not supports(x.double(), weight, 2, 1)
    assert not supports(x, weight.double(), 2, 1)
    assert not supports(x, weight[:60], 2, 1)
    assert not supports(x[:, :24], weight[:, :24], 2, 1)
    assert not supports(x, weight[..., :3], 2, 1)
    for k, s in ((3, 3), (3, 2), (2, 3), (4, 1), (8, 2)):
        assert not supports(x, torch.randn(64, 32, k, k), s, 0)
    assert not supports(x[..., :1, :], weight, 2, 1)
    with torch.autocast("cpu", torch.bfloat16):
        assert not supports(x, weight, 2, 1)
