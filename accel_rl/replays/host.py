"""The compiled way to draw from a ring in host memory: one call instead of a hundred operations of torch."""

import importlib
from types import ModuleType

from accel_rl.hardware import say_once


def compiled() -> ModuleType | None:
    """The extension; None, which is said once, where it was not built."""
    try:
        return importlib.import_module("accel_rl.replays._host")
    except ImportError:
        say_once(
            "the replay's extension is not built (install g++ or clang++ and reinstall); batches are drawn by torch, "
            "small ones several times slower"
        )
        return None
