"""Random generators of a simulated device. As on CUDA, a generator's state is a seed and an offset.

A generator draws the same numbers as a CPU generator with the same seed, so that runs on a simulated GPU can be
compared with runs on the CPU. The offset is 4 times the number of 32-bit words that the Mersenne Twister of the CPU
generator has drawn since it was seeded.
"""

import struct
import weakref
from typing import Any

import torch
from torch import Tensor

from tests.simulated_device import streams

HostGenerator = torch._C.Generator
_known: "weakref.WeakValueDictionary[int, DeviceGenerator]" = weakref.WeakValueDictionary()
_N = 624  # The number of 32-bit words in a Mersenne Twister's state.
_TWISTER = 5016  # Bytes of the Mersenne Twister in a CPU generator's state.
_MOST = 1 << 28  # The largest number of drawn words that a restored state may have, because skipping each takes 5 ns.


class DeviceGenerator(HostGenerator):
    """A random generator of a simulated device, with a state of 16 bytes."""

    def __new__(cls, device: Any = "sim") -> "DeviceGenerator":
        generator = super().__new__(cls, "cpu")
        generator._index = streams.index_of(device)
        # A CPU generator in the state of the last call of get_state, and the number of words drawn until this state.
        generator._counted, generator._words = HostGenerator(), 0
        _known[generator._cdata] = generator
        return generator

    @property
    def device(self) -> torch.device:
        return streams.DEVICES[self._index]

    def manual_seed(self, seed: int) -> "DeviceGenerator":
        super().manual_seed(seed)
        self._counted.manual_seed(seed)
        self._words = 0
        return self

    def get_state(self) -> Tensor:
        """Return the state [16] uint8 on the host.

        A CPU generator draws two normal numbers, and stores the second, which is dropped here, because a GPU's
        generator stores none.
        """
        state = super().get_state()
        state[_TWISTER:] = 0
        super().set_state(state)
        self._count(state)
        return _bytes(struct.pack("<Qq", self.initial_seed(), 4 * self._words))

    def set_state(self, state: Tensor) -> None:
        if state.device.type != "cpu" or state.dtype != torch.uint8:
            raise TypeError("RNG state must be a torch.ByteTensor")
        if state.numel() != 16:
            raise RuntimeError("RNG state is wrong size")
        seed, offset = struct.unpack("<Qq", state.numpy().tobytes())
        if offset % 4:
            raise RuntimeError("offset must be a multiple of 4")
        if not 0 <= offset // 4 <= _MOST:
            raise RuntimeError(f"the simulation cannot skip {offset // 4} words")
        self.manual_seed(seed)
        self._skip(offset // 4)
        super().set_state(self._counted.get_state())

    def get_offset(self) -> int:
        return struct.unpack("<Qq", self.get_state().numpy().tobytes())[1]

    def graphsafe_get_state(self) -> "DeviceGenerator":
        return self

    def graphsafe_set_state(self, state: HostGenerator) -> None:
        self.set_state(state.get_state())
        capturing.discard((self._index, self._cdata))

    def clone_state(self) -> "DeviceGenerator":
        clone = DeviceGenerator(self._index)
        clone.set_state(self.get_state())
        return clone

    def snapshot(self) -> tuple[Tensor, Tensor, int]:
        return super().get_state(), self._counted.get_state(), self._words

    def rewind(self, snapshot: tuple[Tensor, Tensor, int]) -> None:
        """Undo everything since `snapshot`."""
        super().set_state(snapshot[0])
        self._counted.set_state(snapshot[1])
        self._words = snapshot[2]

    def _skip(self, words: int) -> None:
        torch.empty(words, dtype=torch.int32).random_(generator=self._counted)
        self._words += words

    def _count(self, state: Tensor) -> None:
        """Count the words that the CPU generator has drawn until `state`."""
        counted = self._counted.get_state()
        self._skip((_next_word(state) - _next_word(counted)) % _N)
        while not torch.equal(self._counted.get_state()[:_TWISTER], state[:_TWISTER]):
            self._skip(_N)
            assert self._words <= _MOST, "the generator's numbers do not follow from its seed"


def _bytes(x: bytes) -> Tensor:
    return torch.frombuffer(bytearray(x), dtype=torch.uint8)


def _next_word(state: Tensor) -> int:
    """Return the index of the next word in a CPU generator's state."""
    return int(state[16:24].view(torch.int64))


class _Kind(type):
    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, HostGenerator)


class Generator(metaclass=_Kind):
    """Replaces the class torch.Generator. Creates a CPU generator, or a generator of a simulated device."""

    def __new__(cls, device: Any = "cpu") -> Any:
        return DeviceGenerator(device) if torch.device(device).type == "sim" else HostGenerator(device)


defaults = tuple(DeviceGenerator(index) for index in range(streams.COUNT))
"""The default generators of the simulated devices, which `torch.manual_seed` seeds."""


capturing: set[tuple[int, int]] = set()
"""The device and `_cdata` of each generator in capture mode.

In torch 2.11 the capture mode is for all threads, and a failed capture does not end it.
"""


def check_draw(generator: HostGenerator, index: int, in_capture: bool) -> None:
    """Raise RuntimeError if a generator that a capture uses draws numbers outside the capture."""
    if not in_capture and (index, generator._cdata) in capturing:
        raise RuntimeError("Offset increment outside graph capture encountered unexpectedly.")


def check(generator: HostGenerator, device: torch.device) -> None:
    """Raise RuntimeError if the generator is not one of the device."""
    known = _known.get(generator._cdata)
    if known is None:
        raise RuntimeError("Expected a 'sim' device type for generator but found 'cpu'")
    if known.device != device:
        raise RuntimeError(f"Expected a '{device}' generator device but found '{known.device}'")


def with_default(func: Any) -> Any:
    """Return the overload of a random operation that has an argument `generator`."""
    if any(a.name == "generator" for a in func._schema.arguments):
        return func
    packet, name = func.overloadpacket, func._overloadname
    sibling = "generator" if name == "default" else name.replace("low", "low_generator")
    if sibling == name or sibling not in packet.overloads():
        raise NotImplementedError(f"the simulated device draws no {func}")
    return getattr(packet, sibling)
