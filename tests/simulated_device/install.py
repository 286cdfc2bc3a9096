"""Registers the device type "sim" with torch, and makes its devices available or unavailable."""

import functools
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch.utils import backend_registration

from tests.simulated_device import autocast, generators, memory, operations, runtime, streams, waits

ENVIRONMENT = "ACCEL_RL_TEST_SIMULATED_DEVICE"
_libraries: list[torch.library.Library] = []
_kept: list[Any] = []


class _Hooks(torch._C._acc.PrivateUse1Hooks):
    def is_available(self) -> bool:
        return True

    def has_primary_context(self, dev_id: int) -> bool:
        return True

    def is_built(self) -> bool:
        return True


class _Guard(torch._C._acc.DeviceGuard):
    def type_(self) -> Any:
        return torch._C._autograd.DeviceType.PrivateUse1


def _makes_tensors(schema: Any) -> bool:
    """Whether an operation has an argument `device` and no tensor arguments, as torch.zeros."""
    kinds = [str(a.type) for a in schema.arguments]
    names = [a.name for a in schema.arguments]
    return "device" in names and "names" not in names and not any("Tensor" in k or "Storage" in k for k in kinds)


def _register() -> None:
    backend_registration._setup_privateuseone_for_python_backend("sim", runtime, _Hooks(), _Guard())
    streams.DEVICES[:] = [torch.device("sim", i) for i in range(streams.COUNT)]
    fallback = torch.library.Library("_", "IMPL")
    fallback.fallback(lambda func, *args, **kwargs: operations.run(func, args, kwargs), "PrivateUse1")
    fallback.fallback(torch.library.fallthrough_kernel, "AutocastPrivateUse1")
    aten = torch.library.Library("aten", "IMPL")
    for schema in torch._C._jit_get_all_schemas():
        namespace, _, name = schema.name.partition("::")
        if namespace == "aten" and _makes_tensors(schema):
            overload = schema.overload_name
            func = getattr(getattr(torch.ops.aten, name), overload or "default")
            aten.impl(f"{name}.{overload}" if overload else name, _factory(func), "PrivateUse1")
    copy = torch.ops.aten._copy_from.default
    aten.impl("_copy_from", lambda *args, **kwargs: operations.run(copy, args, kwargs), "PrivateUse1")
    autocast.register(aten)
    _libraries[:] = [fallback, aten]


def _factory(func: Any) -> Callable[..., Any]:
    return lambda *args, **kwargs: operations.run(func, args, kwargs)


def install(races: bool = True) -> None:
    """Register the device type "sim", whose devices become available by `present`. If `races`, unordered accesses raise
    errors."""
    if not _libraries:
        _register()
    memory.races[0] = races


def reset() -> None:
    """Between two tests, forget counts, the order of accesses, unfinished copies and captures, and page locks."""
    waits.waits.clear()
    streams.reset()
    memory.page_locks.clear()
    generators.capturing.clear()


def _synchronize(device: Any = None, /) -> None:
    streams.synchronize(device)


def _backward(run: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(run)
    def backward(*args: Any, **kwargs: Any) -> Any:
        # Reading `device` creates the state of this thread, which makes the backward pass run in this thread.
        _ = streams.thread.device
        return run(*args, **kwargs)

    return backward


def _to(to: Callable[..., Any]) -> Callable[..., Any]:
    """Return `Tensor.to`, changed to read the device "sim" as the current device, where torch would read sim:0."""

    @functools.wraps(to)
    def moved(self: Any, *args: Any, **kwargs: Any) -> Any:
        if streams.thread.device:
            args = tuple(_indexed(x) for x in args)
            kwargs = {n: _indexed(x) for n, x in kwargs.items()}
        return to(self, *args, **kwargs)

    return moved


def _indexed(value: Any) -> Any:
    is_bare = value == "sim" if isinstance(value, str) else isinstance(value, torch.device) and str(value) == "sim"
    return streams.DEVICES[streams.thread.device] if is_bare else value


def _replacements() -> list[tuple[Any, str, Any]]:
    accelerator = torch.accelerator
    return [
        (torch, "Generator", generators.Generator),
        (torch.Tensor, "to", _to(torch.Tensor.to)),
        (torch.autograd, "_engine_run_backward", _backward(torch.autograd._engine_run_backward)),
        (accelerator, "synchronize", _synchronize),
        (accelerator, "current_stream", runtime.current_stream),
        (accelerator, "set_stream", runtime.set_stream),
        (accelerator, "current_device_index", runtime.current_device),
        (accelerator, "set_device_index", runtime.set_device),
        (accelerator, "device_index", runtime.device),
        (accelerator, "empty_cache", runtime.empty_cache),
        (accelerator, "get_memory_info", runtime.mem_get_info),
        (accelerator, "memory_allocated", runtime.memory_allocated),
        (accelerator, "max_memory_allocated", runtime.max_memory_allocated),
        (accelerator, "reset_peak_memory_stats", runtime.reset_peak_memory_stats),
    ]


@contextmanager
def present() -> Iterator[None]:
    """Make the simulated devices available in the context, also in child processes that have `site` on PYTHONPATH."""
    install(memory.races[0])
    if runtime.is_present[0]:
        yield
        return
    replaced = [(owner, name, getattr(owner, name), new) for owner, name, new in _replacements()]
    environment = os.environ.get(ENVIRONMENT)
    try:
        runtime.is_present[0] = True
        os.environ[ENVIRONMENT] = "1"
        for owner, name, _, new in replaced:
            setattr(owner, name, new)
        yield
    finally:
        runtime.is_present[0] = False
        for owner, name, old, _ in replaced:
            setattr(owner, name, old)
        if environment is None:
            os.environ.pop(ENVIRONMENT, None)
        else:
            os.environ[ENVIRONMENT] = environment


def stay() -> None:
    """Make the simulated devices available until this process ends."""
    context = present()
    context.__enter__()
    _kept.append(context)


@contextmanager
def child_processes() -> Iterator[None]:
    """Make the simulated devices available to Python processes that are started in the context."""
    site, root = str(Path(__file__).parent / "site"), str(Path(__file__).parents[2])
    before = os.environ.get("PYTHONPATH")
    os.environ["PYTHONPATH"] = os.pathsep.join([site, root, *([before] if before else [])])
    try:
        yield
    finally:
        if before is None:
            del os.environ["PYTHONPATH"]
        else:
            os.environ["PYTHONPATH"] = before
