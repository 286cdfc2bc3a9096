"""Load the compiled extension with the CPU kernels (kernels/src), and call the kernels."""

import contextlib
import ctypes
import functools
import importlib
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
from torch import Tensor

from accel_rl.machine.extensions import remedy
from accel_rl.text.notes import say_once

_left_out: ContextVar[bool] = ContextVar("left_out", default=False)


@contextlib.contextmanager
def left_out() -> Iterator[None]:
    """A context in which torch operations replace the compiled kernels, for example to export a network."""
    token = _left_out.set(True)
    try:
        yield
    finally:
        _left_out.reset(token)


def is_left_out() -> bool:
    return _left_out.get()


def compiled() -> ModuleType | None:
    """Return the compiled extension. Return None within the context `left_out`, or if the extension is not compiled,
    which is logged once."""
    if _left_out.get():
        return None
    try:
        module = importlib.import_module("accel_rl.kernels._native")
        module.use_team(_team())
        return module
    except ImportError as error:
        say_once(
            f"the compiled CPU kernels are not built: {remedy('kernels/_native', error)}; until then torch computes "
            "the convolutions, at half the speed, and draws from replays"
        )
        return None


def compiled_for(*tensors: Tensor) -> ModuleType | None:
    """Return the compiled extension if its kernels can use the tensors, and otherwise None. Kernels need contiguous
    float32 tensors on a CPU, for which no gradient is computed."""
    for x in tensors:
        if not (x.is_cpu and x.dtype == torch.float32 and x.is_contiguous()):
            return None
        if x.requires_grad and torch.is_grad_enabled():
            return None
    return compiled()


def required() -> ModuleType:
    """Return the compiled extension, which the caller knows to exist."""
    module = compiled()
    assert module is not None
    return module


@functools.cache
def _team() -> int:
    """Return the address of GOMP_parallel in torch's OpenMP runtime (src/threads.h), or 0 without such a runtime."""
    torch_folder = Path(torch.__file__).parent
    for library in (*torch_folder.glob("lib/libgomp*"), *torch_folder.parent.glob("torch.libs/libgomp*")):
        return ctypes.cast(ctypes.CDLL(str(library)).GOMP_parallel, ctypes.c_void_p).value or 0
    return 0


Observe = Callable[[str, list[Any], tuple[Any, ...]], None]
"""A function with the parameters (name of the kernel, numbers that are passed to the kernel, arguments of `call` in
Python)."""


class _Thread(threading.local):
    observe: Observe | None = None


_thread = _Thread()


def call(module: ModuleType, kernel: str, *arguments: Any) -> None:
    """Call a kernel. A tensor is passed as its address, None as 0, and a tuple as several numbers."""
    numbers = [_number(a) for a in arguments]
    getattr(module, kernel)(*numbers)
    if _thread.observe is not None:
        _thread.observe(kernel, numbers, arguments)


@contextmanager
def observed(observe: Observe) -> Iterator[None]:
    """A context in which `observe` is called after each call of a kernel by this thread."""
    _thread.observe = observe
    try:
        yield
    finally:
        _thread.observe = None


def _number(argument: Any) -> Any:
    if isinstance(argument, Tensor):
        return argument.data_ptr()
    return 0 if argument is None else argument
