"""The compiled products of a small batch and a wide layer's weights equal float64 products up to the rounding of
float32. The result of a row does not depend on the batch size."""

import pytest
import torch

from accel_rl.kernels.linear import linear_small_batch
from accel_rl.kernels.native import compiled

pytestmark = pytest.mark.skipif(compiled() is None or not compiled().vectors, reason="not compiled, or no AVX2")


@pytest.mark.parametrize(("F", "G"), [(256, 1), (256, 6), (3456, 256), (3136, 512), (784, 31), (768, 13), (6912, 64)])
def test_it_is_the_product_and_every_row_has_its_own_bits(F, G):
    x, weight, bias = torch.randn(64, F), torch.randn(G, F) / F**0.5, torch.randn(G)
    whole = linear_small_batch(x, weight, bias)
    assert whole is not None
    want = x.double() @ weight.double().t() + bias.double()
    error = (whole - want).abs().max()
    assert error <= 2 * (torch.addmm(bias, x, weight.t()) - want).abs().max() + 1e-6, error
    threads = torch.get_num_threads()
    try:
        for n, count in ((1, 1), (3, 2), (4, 3), (13, 1), (32, 2), (47, 4), (63, 2)):
            torch.set_num_threads(count)
            assert torch.equal(linear_small_batch(x[:n], weight, bias), whole[:n])
            assert torch.equal(linear_small_batch(x[-n:], weight, bias), whole[-n:])
    finally:
        torch.set_num_threads(threads)


def test_what_it_does_not_take():
    x, weight, bias = torch.randn(8, 256), torch.randn(4, 256), torch.randn(4)
    assert linear_small_batch(x, weight, bias) is not None
    for wrong in (torch.randn(65, 256), torch.randn(8, 512)[:, ::2], x.double(), x.bfloat16()):
        assert linear_small_batch(wrong, weight, bias) is None
    assert linear_small_batch(x[:, :240].contiguous(), weight[:, :240].contiguous(), bias) is None
    assert linear_small_batch(torch.randn(8, 264), torch.randn(4, 264), bias) is None
    assert linear_small_batch(x, torch.randn(256, 4).t(), bias) is None
    assert linear_small_batch(x, weight.requires_grad_(), bias) is None
    with torch.no_grad():
        assert linear_small_batch(x, weight, bias) is not None
