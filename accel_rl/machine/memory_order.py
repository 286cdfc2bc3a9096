"""Orders the loads and stores of shared memory, on processors that may reorder them.

On x86-64, every process sees another process's stores in the order of its program. On other processors, such as
aarch64, another process can see a new counter value before data that was written earlier, unless a fence separates the
two stores.
"""

import importlib
import platform
from collections.abc import Callable

from accel_rl.machine.extensions import remedy
from accel_rl.text.errors import RunError

_COMPILED = "accel_rl.emulator._core"
"""`_COMPILED` is the compiled module that contains the fence. The module is loaded only on processors that may reorder
stores."""
IS_ORDERED = platform.machine().lower() in ("x86_64", "amd64", "i686", "x86")


def fence_of_machine() -> Callable[[], None]:
    """A function that executes a memory fence: no process sees a load or store after the fence before those that
    precede the fence. Raises RunError if the processor needs the compiled fence, and the extension is missing."""
    if IS_ORDERED:
        return lambda: None
    try:
        fence: Callable[[], None] = importlib.import_module(_COMPILED).fence
    except ImportError as e:
        raise RunError(
            f"processes that share memory need the compiled extension on {platform.machine()}: "
            f"{remedy('emulator/_core', e)}; without it, use --sampler.engine in-process and one rank"
        ) from e
    return fence


class OrderedWords:
    """64-bit words of shared memory. A store to the words follows every earlier load and store of its process, and a
    load precedes every later load and store."""

    def __init__(self, words: memoryview, fence: Callable[[], None]):
        self._words, self._fence = words, fence

    def __getitem__(self, i: int) -> int:
        value = self._words[i]
        self._fence()
        return value

    def __setitem__(self, i: int, value: int) -> None:
        self._fence()
        self._words[i] = value
