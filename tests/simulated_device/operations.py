"""Operations on simulated devices: reads, writes and waits are recorded, and then the operation runs on host
tensors."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from tests.simulated_device import alignment, collectives, generators, kernels, launches, source_lines, streams
from tests.simulated_device.copies import SPECIAL
from tests.simulated_device.generators import HostGenerator
from tests.simulated_device.memory import Memory, races
from tests.simulated_device.streams import DEVICES
from tests.simulated_device.tensor import DeviceTensor
from tests.simulated_device.tensor import run as _run

_HOST = torch.device("cpu")
_WAITS = {
    "aten::_local_scalar_dense": "item",
    "aten::nonzero": "nonzero",
    "aten::nonzero_numpy": "nonzero",
    "aten::equal": "equal",
    "aten::masked_select": "masked_select",
    "aten::_unique": "unique",
    "aten::_unique2": "unique",
    "aten::unique_dim": "unique",
    "aten::unique_dim_consecutive": "unique",
    "aten::unique_consecutive": "unique",
    "aten::bincount": "bincount",
    "aten::multinomial": "multinomial",
}
_INDEXING = ("aten::index", "aten::_index_put_impl_", "aten::index_put_", "aten::index_put", "aten::_unsafe_index")
_RESHAPING = ("t_", "squeeze_", "unsqueeze_", "transpose_", "resize_", "resize_as_", "as_strided_", "set_", "swapaxes_")
_MASKS = (torch.bool, torch.uint8)


class _Plan:
    """What torch's schema of an operation says about the arguments that the operation reads and writes, and its
    results."""

    def __init__(self, func: Any) -> None:
        schema = func._schema
        name = schema.name
        self.is_collective = collectives.is_collective(name)
        written = [i for i, a in enumerate(schema.arguments) if a.alias_info is not None and a.alias_info.is_write]
        if self.is_collective:  # torch does not declare that collectives write.
            written = [0]
        self.written = tuple(i for i in written if not schema.arguments[i].kwarg_only)
        self.written_names = tuple(schema.arguments[i].name for i in written if schema.arguments[i].kwarg_only)
        self.writes = bool(written)
        self.reshapes = bool(self.written_names) or name.removeprefix("aten::") in _RESHAPING
        self.call: Callable[..., Any] = kernels.KERNELS.get(name, func)
        if self.is_collective:
            self.call = collectives.finished(func)
        self.special = SPECIAL.get(name)
        self.is_product = alignment.is_product(name)
        self.wait = _WAITS.get(name)
        self.is_indexing = name in _INDEXING
        self.is_empty = "empty" in name
        self.is_repeat = name == "aten::repeat_interleave"
        self.draws = torch.Tag.nondeterministic_seeded in func.tags
        if self.draws:
            self.call = generators.with_default(func)

    def waits(self, args: Any, kwargs: Any) -> str | None:
        if self.is_collective:
            return collectives.wait()
        if self.is_indexing:
            indices = [i for i in args[1] if i is not None]
            is_fill = len(args) > 2 and args[2].numel() == 1 and not (len(args) > 3 and args[3])
            if not is_fill and any(i.dtype in _MASKS for i in indices):
                return "boolean index"
            if any(not isinstance(i, DeviceTensor) and i.dim() for i in indices):
                return "index on the host"
        elif self.is_repeat and kwargs.get("output_size") is None:
            return "repeat_interleave"
        return None

    def written_of(self, args: Any, kwargs: Any) -> list[Any]:
        found = [args[i] for i in self.written if i < len(args)]
        found += [kwargs[n] for n in self.written_names if n in kwargs]
        return [t for x in found for t in (x if isinstance(x, (list, tuple)) else (x,)) if t is not None]


_plans: dict[Any, _Plan] = {}


def _inside(values: Any, here: list[DeviceTensor], hosts: list[Tensor]) -> list[Any]:
    out: list[Any] = []
    for x in values:
        if isinstance(x, DeviceTensor):
            here.append(x)
            x = x.raw
        elif isinstance(x, Tensor):
            hosts.append(x)
        elif type(x) in (list, tuple):
            x = _inside(x, here, hosts)
        out.append(x)
    return out


def run(func: Any, args: Any, kwargs: Any) -> Any:
    """Run an operation of torch that has a tensor argument or result on a simulated device."""
    plan = _plans.get(func)
    if plan is None:
        plan = _plans[func] = _Plan(func)
    if plan.special is not None:
        special = plan.special(func, args, kwargs)
        if special is not NotImplemented:
            return special
    tensors: list[DeviceTensor] = []
    hosts: list[Tensor] = []
    inner = _inside(args, tensors, hosts)
    inner_kw = dict(zip(kwargs, _inside(kwargs.values(), tensors, hosts), strict=True)) if kwargs else {}
    asked = inner_kw.get("device")
    to_host = False
    if asked is not None:
        to_host, inner_kw["device"] = asked.type != "sim", _HOST
        inner_kw.pop("pin_memory", None)
    if tensors:
        index = tensors[0].memory.device
    elif to_host or asked is None:
        return plan.call(*inner, **inner_kw)
    else:
        index = streams.index_of(asked)
    if asked is not None and not to_host and tensors:
        index = index if asked.index is None else asked.index
    elif len(tensors) > 1 or hosts:
        _check_devices(plan, args, index, tensors, hosts)
    streams.touched.add(index)
    stream = streams.thread.streams[index]
    what = plan.wait
    if what is None and (plan.is_indexing or plan.is_repeat or plan.is_collective):
        what = plan.waits(args, kwargs)
    if what is not None and tensors:
        streams.wait_for(what)
    if plan.draws:
        if inner_kw.get("generator") is None:
            inner_kw["generator"] = generators.defaults[index]
        _check_generator(inner_kw["generator"], index)

    if plan.is_product:
        alignment.note(func._schema.name, [t.raw for t in tensors])

    written = plan.written_of(args, kwargs) if plan.writes else ()
    capture = stream.capture
    if capture is not None:
        for t in written:
            if not t.memory.is_graph:
                capture.before_write(t.raw)
        if hosts:
            # As in CUDA, a capture copies the values of zero-dimensional host tensors.
            values = {id(h): h.clone() for h in hosts}
            inner = _replaced(inner, values)
            inner_kw = {n: _replaced([x], values)[0] for n, x in inner_kw.items()}
    out = plan.call(*inner, **inner_kw)
    if to_host:
        return out
    new: list[tuple[int, DeviceTensor]] = []
    flat: list[Any] = []
    result = _wrapped(out, tensors, index, new, flat, capture is not None)
    if plan.reshapes:
        for t in written:
            _follow(t)
    if new or written or not flat:  # An operation whose results are all views accesses no memory.
        if capture is not None:
            if not plan.is_empty:
                capture.record(_replayed(plan.call, inner, inner_kw, new), [t.raw for _, t in new])
            for t in tensors:
                capture.note(t.memory, any(t is w for w in written))
            for _, t in new:
                capture.owns(t.memory)
        elif not plan.is_empty:
            launches.count(func._schema.name)
            if races[0]:
                _note(tensors, written, new, stream)
    if what is not None and tensors:
        streams.know(stream.release())
    return result


def _check_devices(plan: _Plan, args: Any, index: int, tensors: list[DeviceTensor], hosts: list[Tensor]) -> None:
    for t in tensors:
        if t.memory.device != index:
            other = DEVICES[t.memory.device]
            raise RuntimeError(
                "Expected all tensors to be on the same device, "
                f"but found at least two devices, {DEVICES[index]} and {other}!"
            )
    for t in hosts:
        is_index = plan.is_indexing and any(t is i for i in args[1])
        is_written = any(t is args[i] for i in plan.written if i < len(args))
        if (t.dim() and not is_index) or is_written:
            raise RuntimeError(
                "Expected all tensors to be on the same device, "
                f"but found at least two devices, {DEVICES[index]} and cpu!"
            )


def _check_generator(generator: HostGenerator, index: int) -> None:
    generators.check(generator, DEVICES[index])
    capture = streams.thread.streams[index].capture
    if capture is not None:
        capture.check_generator(generator)
    generators.check_draw(generator, index, in_capture=capture is not None)


def _replaced(values: list[Any], by: dict[int, Tensor]) -> list[Any]:
    return [_replaced(x, by) if type(x) is list else by.get(id(x), x) for x in values]


def _wrapped(
    out: Any,
    tensors: list[DeviceTensor],
    index: int,
    new: list[tuple[int, DeviceTensor]],
    flat: list[Any],
    is_graph: bool,
) -> Any:
    """Return the results as device tensors. Appends all results to `flat`, and (position, result) to `new` if newly
    allocated."""
    if isinstance(out, Tensor):
        for t in tensors:
            if t.raw is out:
                flat.append(t)
                return t
        key = out.untyped_storage()._cdata
        for t in tensors:
            if t.memory.key == key:
                wrapped = DeviceTensor(out, t.memory)
                break
        else:
            for _, t in new:
                if t.memory.key == key:
                    wrapped = DeviceTensor(out, t.memory)
                    break
            else:
                wrapped = DeviceTensor(out, Memory(out, index, is_graph))
            new.append((len(flat), wrapped))
        flat.append(wrapped)
        return wrapped
    if isinstance(out, (list, tuple)):
        return type(out)([_wrapped(x, tensors, index, new, flat, is_graph) for x in out])
    return out


def _follow(tensor: DeviceTensor) -> None:
    """Copy the wrapped host tensor's shape and strides, which an operation may have changed."""
    raw = tensor.raw
    if tensor.shape != raw.shape or tensor.stride() != raw.stride():
        torch._C.TensorBase.data.__set__(tensor, DeviceTensor(raw, tensor.memory))  # type: ignore[attr-defined]


def _note(tensors: Any, written: Any, new: Any, stream: streams.Stream) -> None:
    line = source_lines.here()
    for t in tensors:
        if not any(t is w for w in written):
            t.memory.note_read(stream, line)
    for t in written:
        t.memory.note_write(stream, line)
    for _, t in new:
        t.memory.write = stream, stream.epoch, line


def _flat(out: Any) -> list[Tensor]:
    if isinstance(out, (list, tuple)):
        return [y for x in out for y in _flat(x)]
    return [out] if isinstance(out, Tensor) else []


def _replayed(
    call: Callable[..., Any], inner: list[Any], inner_kw: dict[str, Any], new: list[tuple[int, DeviceTensor]]
) -> Callable[[], None]:
    into = [(i, t.raw) for i, t in new]

    def operation() -> None:
        out = call(*inner, **inner_kw)
        if into:
            results = _flat(out)
            for i, raw in into:
                raw.copy_(results[i])

    return operation


_run.append(run)
