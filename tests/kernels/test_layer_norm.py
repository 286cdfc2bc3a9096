"""The compiled layer norms equal torch's float64 layer norms up to the rounding of float32."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from accel_rl.kernels import native
from accel_rl.kernels.activations import layer_norm

pytestmark = pytest.mark.skipif(native.compiled() is None, reason="no compiler built the kernels")
EPSILON = 1e-5


def normed(shape, N=9):
    g = torch.Generator().manual_seed(1)
    x = 3 * torch.randn(N, *shape, generator=g) + 1
    x[0] = 2.5  # a variance of 0
    return x, torch.randn(shape, generator=g), torch.randn(shape, generator=g)


@pytest.mark.parametrize("shape", [(1,), (7,), (16,), (33,), (256,), (25, 19, 16)])
def test_it_is_torchs_to_the_last_digits(shape):
    x, weight, bias = normed(shape)
    got = layer_norm(x, shape, weight, bias, EPSILON)
    want = F.layer_norm(x.double(), shape, weight.double(), bias.double(), EPSILON)
    torch.testing.assert_close(got, want.float(), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("shape", [(33,), (25, 19, 16)])
def test_a_row_does_not_depend_on_the_others(shape):
    x, weight, bias = normed(shape)
    got = layer_norm(x, shape, weight, bias, EPSILON)
    rows = [layer_norm(row[None], shape, weight, bias, EPSILON)[0] for row in x]
    assert torch.equal(got, torch.stack(rows))


@pytest.mark.parametrize(
    "change",
    [
        lambda x, weight: (x.double(), weight.double(), EPSILON),
        lambda x, weight: (x, weight, 1e-3),
        lambda x, weight: (x.transpose(1, 2), weight.t(), EPSILON),
        lambda x, weight: (x, nn.Parameter(weight), EPSILON),
    ],
)
def test_otherwise_it_is_torchs(change, monkeypatch):
    x, weight, _ = normed((5, 8))
    x, weight, epsilon = change(x, weight)
    shape, bias = tuple(weight.shape), torch.zeros(weight.shape, dtype=weight.dtype)
    monkeypatch.setattr(native, "call", None)
    got = layer_norm(x, shape, weight, bias, epsilon)
    assert torch.equal(got, F.layer_norm(x, shape, weight, bias, epsilon)) and got.requires_grad == weight.requires_grad
