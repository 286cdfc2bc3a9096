"""A compiled convolution that is followed by a ReLU gives the results of the compiled convolution with a ReLU inside.
Other test files compare the compiled convolutions with torch."""

import pytest
import torch
import torch.nn.functional as F

from accel_rl.kernels import conv_bf16_amx, native
from accel_rl.kernels.conv2d import conv2d
from accel_rl.models.precision import autocast_for

if native.compiled() is None or not native.compiled().vectors:
    pytest.skip("no compiler built the extension, or this CPU has no AVX2", allow_module_level=True)

CPU = torch.device("cpu")
# (input, weight, stride, padding) of a network's first layer, second layer, and layer of a residual block
LAYERS = [
    ((9, 4, 84, 84), (32, 4, 8, 8), 4, 0),
    ((9, 32, 20, 20), (64, 32, 4, 4), 2, 1),
    ((9, 32, 21, 21), (32, 32, 3, 3), 1, 1),
]


def layer_inputs(size, weight_size):
    g = torch.Generator().manual_seed(3)
    first = size[1] == 4
    x = torch.randint(0, 256, size, dtype=torch.uint8, generator=g) if first else torch.randn(size, generator=g)
    weight = torch.randn(weight_size, generator=g) / weight_size[1] ** 0.5 / weight_size[2]
    return x, weight, torch.randn(weight_size[0], generator=g)


def value_and_gradients(x, weight, bias, s, p, relu, relu_by_torch=False):
    leaves = [t.detach().clone() for t in (x, weight, bias)]
    for t in leaves[x.dtype == torch.uint8 :]:
        t.requires_grad_()
    out = conv2d(*leaves, s, p, of_bytes=x.dtype == torch.uint8, relu=relu)
    value = out.detach().clone()
    out = torch.relu(out) if relu_by_torch else out
    shade = torch.linspace(-1, 1, out.numel()).reshape(out.shape).mul(50).sin()
    out.backward(shade.to(out.dtype))
    return value, [t.grad for t in leaves if t.grad is not None]


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize(("size", "weight_size", "s", "p"), LAYERS)
def test_the_relu_can_follow_separately(size, weight_size, s, p, dtype):
    if dtype == "bfloat16" and not native.compiled().has_amx():
        pytest.skip("this CPU has no AMX")
    x, weight, bias = layer_inputs(size, weight_size)
    with autocast_for(dtype, CPU):
        fused, fused_gradients = value_and_gradients(x, weight, bias, s, p, relu=True)
        value, gradients = value_and_gradients(x, weight, bias, s, p, relu=False, relu_by_torch=True)
        opposite, _ = value_and_gradients(x, -weight, -bias, s, p, relu=True)
    assert value.min() < 0 < value.max()
    assert torch.equal(value.relu(), fused)
    assert torch.equal(value, fused - opposite)
    for a, b in zip(gradients, fused_gradients, strict=True):
        assert torch.equal(a, b)


@pytest.mark.parametrize(("size", "weight_size", "s", "p"), LAYERS)
def test_gradients_without_a_relu_are_those_of_torch(size, weight_size, s, p):
    x, weight, bias = layer_inputs(size, weight_size)
    _, gradients = value_and_gradients(x, weight, bias, s, p, relu=False)
    leaves = [(x.double() / 255 if x.dtype == torch.uint8 else x.double()), weight.double(), bias.double()]
    for t in leaves[x.dtype == torch.uint8 :]:
        t.requires_grad_()
    out = F.conv2d(*leaves, s, p)
    out.backward(torch.linspace(-1, 1, out.numel()).reshape(out.shape).mul(50).sin().double())
    for got, leaf in zip(gradients, leaves[x.dtype == torch.uint8 :], strict=True):
        torch.testing.assert_close(got.double(), leaf.grad, rtol=1e-4, atol=1e-3)


def test_an_infinite_sum_passes_without_a_relu():
    x, weight, bias = layer_inputs(*LAYERS[1][:2])
    bias[3], bias[5] = -torch.inf, torch.nan
    out = conv2d(x, weight, bias, 2, 1, of_bytes=False, relu=False)
    assert (out[:, 3] == -torch.inf).all()
    assert out[:, 5].isnan().all()


def test_a_norms_float32_output_is_multiplied_in_bfloat16(monkeypatch):
    if not native.compiled().has_amx():
        pytest.skip("this CPU has no AMX")
    calls = []
    compiled = conv_bf16_amx.conv_bf16_amx
    monkeypatch.setattr(conv_bf16_amx, "conv_bf16_amx", lambda *a: calls.append(a[0].dtype) or compiled(*a))
    x, weight, bias = layer_inputs(*LAYERS[1][:2])
    with autocast_for("bfloat16", CPU):
        conv2d(x, weight, bias, 2, 1, of_bytes=False, relu=False)
    assert calls == [torch.bfloat16]
