import mmap
import re
from pathlib import Path

import pytest
import torch

from accel_rl.replays.ring import zeros


def test_zeros_of_any_kind():
    for shape, dtype in (((3, 84, 84), torch.uint8), ((5, 27), torch.float32), ((7,), torch.int16)):
        x = zeros(shape, dtype, torch.device("cpu"))
        assert x.shape == shape and x.dtype == dtype and not x.any()
        x[-1] = 1  # it can be written
        assert x[-1].min() == 1


def test_memory_that_is_not_there_is_an_error():
    with pytest.raises((OSError, MemoryError, OverflowError)):
        zeros((2**56,), torch.uint8, torch.device("cpu"))


@pytest.mark.skipif(not hasattr(mmap, "MADV_HUGEPAGE"), reason="this system has no large pages")
def test_large_pages_are_asked_for():
    x = zeros((64 * 2**20,), torch.uint8, torch.device("cpu"))
    for area in re.split(r"^(?=[0-9a-f]+-[0-9a-f]+ )", Path("/proc/self/smaps").read_text(), flags=re.M)[1:]:
        low, high = (int(v, 16) for v in area.split()[0].split("-"))
        if low <= x.data_ptr() < high:
            assert " hg" in re.search(r"VmFlags:(.*)", area).group(1)
            return
    raise AssertionError("the area was not found")
