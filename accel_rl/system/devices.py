"""GPUs through torch's device-independent interface: the accelerator and its module of streams, events and graphs."""

from typing import Any

import torch


def gpu_type() -> str | None:
    """Return the device type of this process's GPUs, such as "cuda"; None if there are none."""
    if not torch.accelerator.is_available():
        return None
    found = torch.accelerator.current_accelerator()
    return found.type if found is not None and hasattr(runtime(found), "CUDAGraph") else None


def is_gpu(device: torch.device | str) -> bool:
    """Whether operations on this device are queued, so that the host need not wait for them."""
    return torch.device(device).type != "cpu"


def runtime(device: torch.device | str) -> Any:
    """Return the module of a GPU's streams, events, graphs and memory: torch.cuda, or that of another device type."""
    return torch.get_device_module(torch.device(device))
