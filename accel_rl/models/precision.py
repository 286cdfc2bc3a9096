"""The precision of a network in training and sampling is float32, or a lower precision that is faster."""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Literal

import torch
from torch import Tensor

from accel_rl.machine.devices import Device
from accel_rl.machine.hardware import CPUINFO, cpu_flags
from accel_rl.text.notes import say_once

Precision = Literal["float32", "tfloat32", "bfloat16"]
"""With tfloat32, a GPU rounds the factors of matrix products to 10 bits of mantissa, and adds the products in
float32."""
# For batches of fewer than 128 rows, converting a layer's weights to bfloat16 takes longer than the multiplication.
WORTH_CONVERTING = 128


def autocast_for(precision: Precision, device: torch.device) -> AbstractContextManager[Any]:
    """A context in which convolutions and hidden layers multiply in the given precision and add in float32. Parameters,
    gradients and the outputs of heads stay float32."""
    if precision == "bfloat16" and device.type == "cpu" and not gains_from_bfloat16():
        say_once("--precision bfloat16: this CPU has no matrix instructions for it (AMX); float32 is faster here")
    if precision != "bfloat16" and not torch.is_autocast_enabled(device.type):
        return nullcontext()
    return torch.autocast(device.type, torch.bfloat16, enabled=precision == "bfloat16")


def multiply_in(precision: Precision, device: torch.device | str) -> None:
    """Set the precision in which a GPU multiplies float32 numbers, for the whole process. Setting the precision is
    necessary even for float32, because torch by default computes convolutions in tfloat32."""
    if precision == "tfloat32" and not Device(device).queues_work:
        say_once("--precision tfloat32: only GPUs multiply in it; float32 is used here")
    # torch.export and torch.compile fail if torch's newer setting `fp32_precision` differs from its older settings.
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = precision == "tfloat32"


def gains_from_bfloat16() -> bool:
    """Whether the CPU may train faster in bfloat16. With AVX512-BF16 and without AMX, training is slower
    (docs/benchmarks.md#training)."""
    return not {"amx_bf16", "bf16"}.isdisjoint(cpu_flags(CPUINFO))


def float32_head(layer: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
    """Compute a head in float32, because the differences between action values are smaller than the resolution of
    bfloat16."""
    if not torch.is_autocast_enabled(x.device.type):
        return layer(x)
    with torch.autocast(x.device.type, enabled=False):
        return layer(x.float())


def float32_if_small(layer: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
    """Compute a hidden layer. On a CPU, small batches are computed in float32, because converting the weights to
    bfloat16 would take longer."""
    is_autocast = torch.is_autocast_enabled(x.device.type)
    return layer(x) if not is_autocast or len(x) >= WORTH_CONVERTING or not x.is_cpu else float32_head(layer, x)
