"""What is compiled for the host: draws from a replay in one call instead of a hundred operations; stacks of frames and
pictures in order; copies past the cache."""

import ctypes
import functools
import importlib
import math
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import torch
from torch import Tensor

from accel_rl.hardware import say_once
from accel_rl.ops.calls import call


def compiled() -> ModuleType | None:
    """The extension; None, which is said once, where it was not built."""
    try:
        module = importlib.import_module("accel_rl.ops._host")
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
    """Address of what runs a function on torch's threads (ops/threads.h); 0 where torch has another kind of them."""
    torch_folder = Path(torch.__file__).parent
    for library in (*torch_folder.glob("lib/libgomp*"), *torch_folder.parent.glob("torch.libs/libgomp*")):
        return ctypes.cast(ctypes.CDLL(str(library)).GOMP_parallel, ctypes.c_void_p).value or 0
    return 0


def gather_stacks(frames: Tensor, t: Tensor, b: Tensor, age: Tensor, stack: int) -> Tensor | None:
    """See ops/frames.py. None where it is not compiled, or for frames that are not on the host in one piece each."""
    whole = frames.device.type == "cpu" and frames[0, 0].is_contiguous()
    module = compiled() if whole else None
    if module is None:
        return None
    size, each = frames.element_size(), frames[0, 0].nbytes
    out = frames.new_empty(len(t), stack, *frames.shape[2:])
    t, b, age = t.long().contiguous(), b.long().contiguous(), age.to(torch.uint8).contiguous()
    strides = frames.stride(0) * size, frames.stride(1) * size
    call(module, "gather_stacks", len(t), stack, each, frames, *strides, t, b, age, out, torch.get_num_threads())
    return out


def in_planes(pictures: Tensor) -> Tensor:
    """pictures [N, S, H, W], each in one piece; they may lie apart, as a replay's windows do."""
    return pictures if _has_planes(pictures) else pictures.contiguous()


def _has_planes(pictures: Tensor) -> bool:
    _, _, height, width = pictures.shape
    return pictures.stride()[1:] == (height * width, width, 1)


def channels_last(pictures: Tensor, dtype: torch.dtype) -> Tensor:
    """pictures [N, S, H, W] uint8 -> the same numbers as dtype, channels-last in memory. In one pass where they are on
    the host, a plane each, and the dtype is float32 or bfloat16."""
    n, stack, height, width = pictures.shape
    planes = _has_planes(pictures) and stack > 1
    known = pictures.device.type == "cpu" and dtype in (torch.float32, torch.bfloat16)
    module = compiled() if planes and known else None
    if module is None:
        return pictures.to(dtype, memory_format=torch.channels_last)
    out = torch.empty(pictures.shape, dtype=dtype, memory_format=torch.channels_last)
    source, bfloat16 = (pictures, pictures.stride(0)), dtype == torch.bfloat16
    call(module, "channels_last", n, stack, height * width, *source, out, bfloat16, torch.get_num_threads())
    return out


def stream(pairs: list[tuple[Tensor, Tensor]]) -> Callable[[slice], None]:
    """For any part of the pairs (out [n], source [n]), out[part].copy_(source[part]): past the cache where they are
    whole pieces of the host's memory, for what others will read."""
    module = compiled() if all(_alike(*pair) for pair in pairs) else None
    if module is None:

        def copy(part: slice) -> None:
            for out, source in pairs:
                out[part].copy_(source[part])

        return copy
    # addresses, once: to slice tensors takes longer than a part does
    routes = [(out.data_ptr(), source.data_ptr(), out.itemsize) for out, source in pairs]

    def stream_part(part: slice) -> None:
        for to, source, size in routes:
            module.stream(to + size * part.start, source + size * part.start, size * (part.stop - part.start))

    return stream_part


def _alike(out: Tensor, source: Tensor) -> bool:
    same = (out.device.type, out.dtype, out.shape) == ("cpu", source.dtype, source.shape)
    return same and source.device.type == "cpu" and out.is_contiguous() and source.is_contiguous()


def choose(logits: Tensor, uniform: Tensor) -> tuple[Tensor, Tensor] | None:
    """See ops/policy_gradient.py. None where it is not compiled, or for numbers that are not float32 on the host."""
    plain = logits.device.type == "cpu" and logits.dtype == uniform.dtype == torch.float32
    module = compiled() if plain and logits.dim() == 2 else None
    if module is None:
        return None
    logits, uniform = logits.contiguous(), uniform.contiguous()
    action, log_prob = uniform.new_empty(len(uniform), dtype=torch.int64), torch.empty_like(uniform)
    call(module, "choose", *logits.shape, logits, uniform, action, log_prob)
    return action, log_prob


def epsilon_greedy(q: Tensor, uniform: Tensor, epsilon: Tensor) -> Tensor | None:
    """q [N, A], uniform [N] in [0, 1), epsilon [N] or [] -> action [N]: any, where uniform is below epsilon, by how far
    it is; else the first of the highest value. None as for `choose`."""
    plain = q.device.type == "cpu" and q.dtype == uniform.dtype == epsilon.dtype == torch.float32 and q.dim() == 2
    module = compiled() if plain else None
    if module is None:
        return None
    q, uniform, epsilon = q.contiguous(), uniform.contiguous(), epsilon.contiguous()
    action = torch.empty(len(q), dtype=torch.int64)
    call(module, "epsilon_greedy", *q.shape, q, uniform, epsilon, epsilon.dim(), action)
    return action


def relu_(x: Tensor) -> Tensor:
    """In place, x [...]."""
    plain = x.device.type == "cpu" and x.dtype == torch.float32 and x.is_contiguous()
    module = compiled() if plain and not (torch.is_grad_enabled() and x.requires_grad) else None
    if module is None:
        return torch.relu_(x)
    call(module, "relu", x.numel(), x)
    return x


def copy_(out: Tensor, source: Tensor) -> None:
    """out [n] = source [n]."""
    module = compiled() if _alike(out, source) else None
    if module is None:
        out.copy_(source)
    else:
        call(module, "copy", source.nbytes, source, out)


def l2_norm(x: Tensor) -> float | None:
    """Of x [n] float32 on the host, by all threads, the same bits however many; None where it is not compiled."""
    plain = x.device.type == "cpu" and x.dtype == torch.float32 and x.is_contiguous()
    module = compiled() if plain else None
    return None if module is None else math.sqrt(module.sum_of_squares(x.data_ptr(), len(x), torch.get_num_threads()))


def weighted_sum(parts: list[Tensor], weights: list[float], out: Tensor) -> float:
    """out [n] = the parts [n] (float32, on the host, in one piece each), weighted, added up in their order.

    Returns the sum of its squares. In one pass over the memory where it is compiled.
    """
    module = compiled()
    if module is not None:
        return float(module.weighted_sum([p.data_ptr() for p in parts], weights, out.data_ptr(), len(out)))
    torch.mul(parts[0], weights[0], out=out)
    for part, weight in zip(parts[1:], weights[1:], strict=True):
        out.add_(part, alpha=weight)
    return float(out.double().square().sum())
