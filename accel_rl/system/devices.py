"""GPUs through torch's device-independent interface: the accelerator and its module of streams, events and graphs."""

from typing import TYPE_CHECKING, Any, Union

if TYPE_CHECKING:
    import torch

Device = Union["torch.device", str]


def gpu_type() -> str | None:
    """Return the device type of this process's GPUs, such as "cuda"; None if there are none."""
    import torch

    if not torch.accelerator.is_available():
        return None
    found = torch.accelerator.current_accelerator()
    return found.type if found is not None and hasattr(runtime(found), "CUDAGraph") else None


def is_gpu(device: Device) -> bool:
    """Whether operations on this device are queued, so that the host need not wait for them."""
    return str(device) != "cpu"


def runtime(device: Device) -> Any:
    """Return the module of a GPU's streams, events, graphs and memory: torch.cuda, or that of another device type."""
    import torch

    return torch.get_device_module(torch.device(device))
