"""Give each environment its own states of the global random number generators of `numpy.random` and `random`.

Some environments call `np.random.rand()` or `random.random()` instead of drawing from a generator of their own. All
environments of a process, and in the main process also the user's program, share the global generators, so an
environment's numbers would depend on all other draws. During a call of an environment, `OwnGenerators` sets the
environment's own states.

`numpy.random.get_state` and `random.getstate` take longer than a step of CartPole. The states of the two generators,
which are Mersenne twisters, are therefore copied directly in memory. NumPy documents the address of its state, and the
address of CPython's state is verified.
"""

import random
from ctypes import c_char
from functools import cache
from types import TracebackType
from typing import Any

import numpy as np

from accel_rl.text.notes import say_once

BYTES = 4 * 625
"""Size of a Mersenne twister's state: 624 words, and the position of the next word."""

_python: Any = random._inst  # Generator from which `random.random()` and the other functions of `random` draw
_seeded_numpy, _seeded_python = np.random.RandomState(0), random.Random(0)


def _memory(address: int) -> memoryview:
    return memoryview((c_char * BYTES).from_address(address)).cast("B")


def _of_numpy(bit_generator: Any) -> memoryview:
    """Return the memory of the state of NumPy's MT19937: the words, then the position."""
    return _memory(bit_generator.ctypes.state_address)


def _global_numpy() -> memoryview:
    return _of_numpy(np.random.get_bit_generator())  # type: ignore[attr-defined]  # missing in numpy's stubs


def _of_python(generator: random.Random) -> memoryview:
    """Return the memory of the state of a generator of `random`: the position, then the words."""
    return _memory(id(generator) + object.__basicsize__)


@cache
def _is_known() -> bool:
    """Return whether both generators store their states as this module assumes."""
    numpy, words = np.random.get_state(legacy=False), random.getstate()[1]
    if numpy["bit_generator"] != "MT19937" or len(words) != 625:
        return False
    expected = np.array([*numpy["state"]["key"], numpy["state"]["pos"]], np.uint32)
    return bool(
        _global_numpy() == expected.tobytes()
        and _of_python(_python) == np.array([words[-1], *words[:-1]], np.uint32).tobytes()
    )


class OwnGenerators:
    """A context in which the global generators have an environment's own states. The generators continue after the
    context as if the environment had not drawn.

    The context has no effect if `is_needed` is false, or if the generators do not store their states as this module
    assumes, as in interpreters other than CPython. If generators store their states differently, a message is printed
    once.
    """

    def __init__(self, seed: int, is_needed: bool = True) -> None:
        self._is_active = is_needed and _is_known()
        if is_needed and not self._is_active:
            say_once(
                "numpy.random and random store their states unlike CPython's: environments that draw from them do not "
                "repeat with the seed"
            )
        if self._is_active:
            self._numpy_memory = _global_numpy()
            self._python_memory = _of_python(_python)
            self.seed(seed)

    def seed(self, seed: int) -> None:
        """Set the environment's states to those after `np.random.seed(seed)` and `random.seed(seed)`. Seeds are taken
        modulo 2**32."""
        if not self._is_active:
            return
        _seeded_numpy.seed(seed % 2**32)
        _seeded_python.seed(seed % 2**32)
        self._numpy = _of_numpy(_seeded_numpy._bit_generator).tobytes()
        self._python, self._gauss = _of_python(_seeded_python).tobytes(), None

    def get_state(self) -> bytes:
        """Return the environment's states of both generators, or b"" if the context has no effect."""
        return self._numpy + self._python if self._is_active else b""

    def set_state(self, state: bytes) -> None:
        if self._is_active and state:
            self._numpy, self._python, self._gauss = state[:BYTES], state[BYTES:], None

    def __enter__(self) -> None:
        if not self._is_active:
            return
        numpy, python = self._numpy_memory, self._python_memory
        self._outer = numpy.tobytes(), python.tobytes(), _python.gauss_next
        self._outer_normal = self._stored_normal(self._outer[0])
        numpy[:], python[:], _python.gauss_next = self._numpy, self._python, self._gauss

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if not self._is_active:
            return
        numpy, python = self._numpy_memory, self._python_memory
        drawn = numpy.tobytes()
        if drawn != self._numpy:
            self._numpy = drawn
            self._stored_normal(drawn)
        self._python, self._gauss = python.tobytes(), _python.gauss_next
        numpy[:], python[:], _python.gauss_next = self._outer
        if self._outer_normal is not None:
            state = np.random.get_state(legacy=False)
            np.random.set_state({**state, "has_gauss": 1, "gauss": self._outer_normal})

    def _stored_normal(self, state: bytes) -> float | None:
        """Remove and return the normally distributed number that `numpy.random` has stored for its next draw, if any.
        NumPy computes two normally distributed numbers at a time, and stores the second one outside of the generator's
        state. Drawing a stored number does not change the generator's state."""
        number = float(np.random.standard_normal())
        if self._numpy_memory.tobytes() == state:
            return number
        np.random.standard_normal()
        return None
