"""Error messages of CudaKernels if CUDA's driver refuses the compiled kernels."""

from types import SimpleNamespace

import pytest

from accel_rl.text.errors import RunError


@pytest.mark.parametrize(
    ("error", "says"),
    [
        ("CUDA_ERROR_UNSUPPORTED_PTX_VERSION", "the driver is older than NVRTC; update it"),
        ("CUDA_ERROR_INVALID_IMAGE", "the driver is older than NVRTC; update it"),
        ("CUDA_ERROR_OUT_OF_MEMORY", "loading the compiled emulator: CUDA_ERROR_OUT_OF_MEMORY"),
    ],
)
def test_a_driver_that_refuses_the_kernels_is_one_line(error, says):
    from accel_rl.emulator.device.cuda import CudaKernels

    kernels = CudaKernels.__new__(CudaKernels)
    kernels._driver = SimpleNamespace(CUresult=SimpleNamespace(CUDA_SUCCESS=0))
    kernels._device = "cuda:0"
    with pytest.raises(RunError) as raised:
        kernels._checked((SimpleNamespace(name=error), 0), "loading the compiled emulator")
    line = str(raised.value)
    assert line.startswith("the emulator on cuda:0: ") and says in line and "\n" not in line
    assert ("update" in line) == ("update" in says)
