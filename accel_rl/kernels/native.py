"""What is compiled for the host: draws from a replay in one call instead of a hundred operations; stacks of frames and
pictures in order; copies past the cache."""

import ctypes
import functools
import importlib
from pathlib import Path
from types import ModuleType

import torch

from accel_rl.system.hardware import say_once


def compiled() -> ModuleType | None:
    """The extension; None, which is said once, where it was not built."""
    try:
        module = importlib.import_module("accel_rl.kernels._native")
        module.use_team(_team())
        return module
    except ImportError:
        say_once(
            "the extension for the host is not built (install g++ or clang++ and reinstall); torch draws from replays, "
            "small batches several times slower, gathers stacks of frames and convolves them, at half the speed"
        )
        return None


@functools.cache
def _team() -> int:
    """The address of GOMP_parallel in torch's OpenMP runtime (kernels/src/threads.h); 0 without one."""
    torch_folder = Path(torch.__file__).parent
    for library in (*torch_folder.glob("lib/libgomp*"), *torch_folder.parent.glob("torch.libs/libgomp*")):
        return ctypes.cast(ctypes.CDLL(str(library)).GOMP_parallel, ctypes.c_void_p).value or 0
    return 0
