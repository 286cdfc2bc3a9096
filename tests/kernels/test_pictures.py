"""Memory orders of pictures."""

import pytest
import torch

from accel_rl.kernels import native
from accel_rl.kernels.pictures import channels_last

pytestmark = pytest.mark.skipif(native.compiled() is None, reason="no compiler built the kernels")


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64])
@pytest.mark.parametrize(("stack", "size"), [(4, (84, 84)), (4, (5, 3)), (3, (7, 9)), (1, (8, 8)), (5, (104, 80))])
@pytest.mark.parametrize("threads", [1, 2])
def test_pictures_in_channels_last_order(stack, size, dtype, threads):
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        window = torch.randint(0, 256, (9, stack + 1, *size), dtype=torch.uint8)
        whole, shuffled = window[:, 1:].contiguous(), window[:, 1:].contiguous(memory_format=torch.channels_last)
        for pictures in (window[:, 1:], whole, shuffled, whole[::2], whole[:0]):
            got, want = channels_last(pictures, dtype), pictures.to(dtype, memory_format=torch.channels_last)
            assert torch.equal(got, want) and got.stride() == want.stride() and got.dtype == dtype
    finally:
        torch.set_num_threads(before)
