"""The energy that GPUs use, from NVIDIA's management library (NVML), which is a part of the driver."""

import ctypes
from collections.abc import Sequence

LIBRARY = "libnvidia-ml.so.1"


def gpu_id(device: str) -> str:
    """NVML's name of a GPU, such as GPU-1a2b..., from its device name, such as cuda:0, or "" if `device` is no GPU."""
    if device == "cpu":
        return ""
    from accel_rl.machine.devices import runtime

    properties = getattr(runtime(device), "get_device_properties", lambda _: None)(device)
    uuid = str(getattr(properties, "uuid", "") or "")
    return uuid if not uuid or uuid.startswith(("GPU-", "MIG-")) else f"GPU-{uuid}"


class GpuEnergy:
    """The energy that GPUs use, including that of other programs. NVML has an energy counter for each GPU since Volta.
    The counter starts when the driver is loaded."""

    def __init__(self, ids: Sequence[str], library: str = LIBRARY):
        """`ids` are NVML's names of the GPUs. Without GPUs, the energy is zero."""
        self._nvml = _load(library) if ids else None
        self._ids = tuple(ids)
        self._began = self._read()

    def joules(self) -> float | None:
        """Energy in joules since this object was created, or None if NVML does not report it."""
        now = self._read()
        if now is None or self._began is None:
            return None
        return sum(after - before for before, after in zip(self._began, now, strict=True)) / 1e3

    def _read(self) -> list[int] | None:
        """The energy counter of each GPU in millijoules, or None if NVML does not report all counters."""
        if not self._ids:
            return []
        if self._nvml is None:
            return None
        result = []
        for name in self._ids:
            gpu, value = ctypes.c_void_p(), ctypes.c_ulonglong()
            if self._nvml.nvmlDeviceGetHandleByUUID(name.encode(), ctypes.byref(gpu)):
                return None
            if self._nvml.nvmlDeviceGetTotalEnergyConsumption(gpu, ctypes.byref(value)):
                return None
            result.append(value.value)
        return result


def _load(library: str) -> ctypes.CDLL | None:
    """The initialized library NVML, or None if NVML is missing or has no energy counters. NVML's functions return 0 on
    success."""
    try:
        nvml = ctypes.CDLL(library)
        has_counters = hasattr(nvml, "nvmlDeviceGetTotalEnergyConsumption")
        return nvml if has_counters and not nvml.nvmlInit_v2() else None
    except (OSError, AttributeError):
        return None
