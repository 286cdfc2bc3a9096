"""Random generators of a simulated device. Their numbers are drawn on the host, so they equal those of a host run."""

import weakref
from typing import Any

import torch

from tests.simulated_device import streams

HostGenerator = torch._C.Generator
_known: "weakref.WeakValueDictionary[int, DeviceGenerator]" = weakref.WeakValueDictionary()


class DeviceGenerator(HostGenerator):
    """A host generator that says it is on a simulated device."""

    def __new__(cls, device: Any = "sim") -> "DeviceGenerator":
        generator = super().__new__(cls, "cpu")
        generator._device = streams.DEVICES[streams.index_of(device)]
        _known[generator._cdata] = generator
        return generator

    @property
    def device(self) -> torch.device:
        return self._device

    def graphsafe_get_state(self) -> "DeviceGenerator":
        return self

    def graphsafe_set_state(self, state: HostGenerator) -> None:
        self.set_state(state.get_state())
        capturing.discard((self._device.index, self._cdata))

    def clone_state(self) -> "DeviceGenerator":
        clone = DeviceGenerator(self._device)
        clone.set_state(self.get_state())
        return clone


class _Kind(type):
    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, HostGenerator)


class Generator(metaclass=_Kind):
    """Stands for torch.Generator: makes a host generator or one of a simulated device."""

    def __new__(cls, device: Any = "cpu") -> Any:
        return DeviceGenerator(device) if torch.device(device).type == "sim" else HostGenerator(device)


class DefaultGenerator:
    """Stands for an entry of torch.cuda.default_generators. Its numbers are those of the host's default generator."""

    def __init__(self, index: int) -> None:
        self._key = index, torch.default_generator._cdata
        self.get_state = torch.default_generator.get_state

    def graphsafe_set_state(self, state: HostGenerator) -> None:
        torch.default_generator.set_state(state.get_state())
        capturing.discard(self._key)


capturing: set[tuple[int, int]] = set()
"""The device and `_cdata` of each generator of a capture. In torch 2.11 a generator is in capture mode for all threads,
and stays in capture mode if the capture fails."""


def check_draw(generator: HostGenerator | None, index: int, in_capture: bool) -> None:
    """Raises RuntimeError for a draw outside the capture to which the generator belongs. None is the default
    generator."""
    if not in_capture and (index, (generator or torch.default_generator)._cdata) in capturing:
        raise RuntimeError("Offset increment outside graph capture encountered unexpectedly.")


def check(generator: HostGenerator, device: torch.device) -> None:
    """Raises RuntimeError if the generator is not on that device."""
    known = _known.get(generator._cdata)
    if known is None:
        raise RuntimeError("Expected a 'sim' device type for generator but found 'cpu'")
    if known.device != device:
        raise RuntimeError(f"Expected a '{device}' generator device but found '{known.device}'")
