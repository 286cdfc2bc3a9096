"""Convolutions with the memory layouts for a GPU give the results of torch's convolution. The tests also run on the
CPU."""

import pytest
import torch
import torch.nn.functional as F

from accel_rl.kernels.conv2d import conv2d_on_gpu, pixel_blocks, weight_blocks


@pytest.mark.parametrize("size", [(104, 80), (84, 84)])
def test_blocks_of_pixels_as_channels(size):
    x, weight = torch.randint(0, 256, (3, 4, *size), dtype=torch.uint8), torch.randn(16, 4, 8, 8) / 255
    blocks = pixel_blocks(x)
    assert blocks.shape == (3, 64, size[0] // 4, size[1] // 4)
    assert blocks.is_contiguous(memory_format=torch.channels_last)
    assert blocks[1, 16 * 2 + 4 * 3 + 1, 5, 6] == x[1, 2, 4 * 5 + 3, 4 * 6 + 1]
    expected = F.conv2d(x.double(), weight.double(), stride=4)
    torch.testing.assert_close(F.conv2d(blocks.double(), weight_blocks(weight.double())), expected)


@pytest.mark.parametrize("tf32", [False, True])
@pytest.mark.parametrize("size", [(104, 80), (84, 84), (42, 30)])
@pytest.mark.parametrize(("kernel", "stride", "padding"), [(8, 4, 0), (4, 2, 1)])
def test_it_is_a_convolution(monkeypatch, tf32, size, kernel, stride, padding):
    monkeypatch.setattr(torch.backends.cudnn, "allow_tf32", tf32)
    x = torch.randint(0, 256, (3, 4, *size), dtype=torch.uint8)
    weight, bias = (torch.randn(16, 4, kernel, kernel) / 255).requires_grad_(), torch.randn(16)
    found = conv2d_on_gpu(x, weight, bias, stride, padding)
    expected = F.conv2d(x.float(), weight, bias, stride, padding)
    torch.testing.assert_close(found, expected, atol=1e-4, rtol=1e-4)
    gradients = [torch.autograd.grad(y.square().sum(), weight)[0] for y in (found, expected)]
    torch.testing.assert_close(*gradients, atol=1.0, rtol=1e-3)
