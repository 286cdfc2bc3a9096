"""Copies between the host and the devices, and between devices."""

from typing import Any

import torch
from torch import Tensor

from tests.simulated_device import launches, source_lines, streams
from tests.simulated_device.memory import Memory, page_locks, races
from tests.simulated_device.streams import Stream
from tests.simulated_device.tensor import DeviceTensor

_PAGEABLE = "operation not permitted when stream is capturing: a copy from or to pageable memory"


def _is_asynchronous(host: Tensor, device: Tensor, non_blocking: bool) -> bool:
    """Whether a GPU can copy to or from the host tensor while the host continues."""
    dense = host.is_contiguous() or (host.stride() == device.stride() and host.dtype == device.dtype)
    return non_blocking and dense and host.shape == device.shape and page_locks.holds(host)


def _read(tensor: DeviceTensor, stream: Stream) -> None:
    launches.count("copy from the device")
    if races[0]:
        tensor.memory.note_read(stream, source_lines.here())


def _write(tensor: DeviceTensor, stream: Stream) -> None:
    if races[0]:
        tensor.memory.note_write(stream, source_lines.here())


def _to_device(target: DeviceTensor, host: Tensor, non_blocking: bool) -> Tensor:
    stream = streams.current(target.memory.device)
    capture = stream.capture
    is_asynchronous = _is_asynchronous(host, target, non_blocking)
    if capture is not None:
        if not is_asynchronous:
            capture.fail(_PAGEABLE)
        if not target.memory.is_graph:
            capture.before_write(target.raw)
        capture.note(target.memory, True)
        raw = target.raw
        capture.record(lambda: raw.copy_(host))
        raw.copy_(host)
        return target
    launches.count("copy to the device")
    _write(target, stream)
    if not is_asynchronous and target.numel():
        streams.wait_for("copy to the device", stream)
    if is_asynchronous and target.numel():
        streams.read_later(stream, host)
    target.raw.copy_(host)
    return target


def _to_host(host: Tensor, source: DeviceTensor, non_blocking: bool) -> Tensor:
    stream = streams.current(source.memory.device)
    capture = stream.capture
    is_asynchronous = _is_asynchronous(host, source, non_blocking)
    raw = source.raw
    if capture is not None:
        if not is_asynchronous:
            capture.fail(_PAGEABLE)
        capture.note(source.memory, False)
        index = source.memory.device
        capture.record(lambda: streams.copy_later(streams.current(index), host, raw.to(host.dtype, copy=True)))
        return host
    _read(source, stream)
    if is_asynchronous:
        streams.copy_later(stream, host, raw.to(host.dtype, copy=True))
        return host
    if source.numel():
        streams.wait_for("copy to the host", stream)
    host.copy_(raw)
    return host


def _between(target: DeviceTensor, source: DeviceTensor) -> Tensor:
    """Copy to another device. Before and after the copy, the current streams of both devices wait for each other."""
    to, at = (streams.current(t.memory.device) for t in (target, source))
    if to.capture is not None or at.capture is not None:
        capture = to.capture or at.capture
        assert capture is not None
        capture.fail("a copy between devices is captured, which is not simulated")
    at.wait_stream(to)
    _read(source, at)
    _write(target, at)
    target.raw.copy_(source.raw)
    to.wait_stream(at)
    return target


def copy_(func: Any, args: Any, kwargs: Any) -> Any:
    target, source, *rest = args
    non_blocking = bool(rest[0] if rest else kwargs.get("non_blocking", False))
    if not isinstance(source, DeviceTensor):
        return _to_device(target, source, non_blocking)
    if not isinstance(target, DeviceTensor):
        return _to_host(target, source, non_blocking)
    if target.memory.device != source.memory.device:
        return _between(target, source)
    return NotImplemented


def copy_from(func: Any, args: Any, kwargs: Any) -> Any:
    source, target, *rest = args
    copy_(func, (target, source, *rest), kwargs)
    return target


def to_copy(func: Any, args: Any, kwargs: Any) -> Any:
    source, device = args[0], kwargs.get("device")
    if not isinstance(source, DeviceTensor) or device is None:
        return NotImplemented
    if device.type == "sim" and streams.index_of(device) == source.memory.device:
        return NotImplemented
    options = {n: x for n, x in kwargs.items() if n not in ("device", "pin_memory", "layout", "non_blocking")}
    if device.type == "sim":
        raw = torch.ops.aten._to_copy(source.raw, **options)
        target = DeviceTensor(raw, Memory(raw, streams.index_of(device)))
        return _between(target, source)
    stream = streams.current(source.memory.device)
    if stream.capture is not None:
        stream.capture.fail(_PAGEABLE)
    _read(source, stream)
    values = torch.ops.aten._to_copy(source.raw, **options)
    if kwargs.get("non_blocking"):  # As in torch, the copy is in new page-locked memory.
        host = torch.zeros_like(values)
        streams.copy_later(stream, host, values)
        return host
    streams.wait_for("copy to the host", stream)
    return values


SPECIAL = {"aten::copy_": copy_, "aten::_copy_from": copy_from, "aten::_to_copy": to_copy}
