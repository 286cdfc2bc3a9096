"""Compiled kernels are called with tensors as addresses."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any

from torch import Tensor

Observe = Callable[[str, list[Any], tuple[Any, ...]], None]
"""A function of (kernel name, the numbers passed to the kernel, the Python arguments these numbers were made from)."""


class _Thread(threading.local):
    observe: Observe | None = None


_thread = _Thread()


def call(module: ModuleType, kernel: str, *arguments: Any) -> None:
    """Call a compiled kernel with numbers, tuples of numbers, and tensors. A tensor is passed as its address, and None
    as 0."""
    numbers = [_number(a) for a in arguments]
    getattr(module, kernel)(*numbers)
    if _thread.observe is not None:
        _thread.observe(kernel, numbers, arguments)


@contextmanager
def observed(observe: Observe) -> Iterator[None]:
    """Context manager in which `observe` is called after each call of a kernel by this thread."""
    _thread.observe = observe
    try:
        yield
    finally:
        _thread.observe = None


def _number(argument: Any) -> Any:
    if isinstance(argument, Tensor):
        return argument.data_ptr()
    return 0 if argument is None else argument
