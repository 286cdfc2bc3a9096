"""Convolutions in bfloat16, with or without a ReLU, by compiled kernels for AMX, the matrix instructions of some
CPUs."""

import functools
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from accel_rl.kernels import native
from accel_rl.kernels.conv_u8 import in_planes
from accel_rl.kernels.native import call


def multiplies_bfloat16() -> bool:
    """Return whether CPU autocast to bfloat16 is enabled."""
    return torch.is_autocast_enabled("cpu") and torch.get_autocast_dtype("cpu") == torch.bfloat16


def supports(x: Tensor, weight: Tensor, stride: int, padding: int) -> bool:
    """Return whether `conv_bf16_amx` supports the arguments. The kernel needs bfloat16 autocast and a CPU with AMX. The
    input must be 4 uint8 frames (with stride 4), or channels-last bfloat16. The convolution's kernel must be square,
    its size must be divisible by the stride, and the numbers of channels must be multiples of 16."""
    if not multiplies_bfloat16():
        return False
    if x.device.type != "cpu" or weight.dtype != torch.float32:
        return False
    (out, channels, k, width), of_bytes = weight.shape, x.dtype == torch.uint8
    square = k == width and k % stride == 0
    multiples = out % (16 if of_bytes else 32) == 0 and (stride * stride * channels) % 32 == 0
    if of_bytes:
        fits = (channels, stride, padding) == (4, 4, 0)
    else:
        fits = x.dtype == torch.bfloat16 and channels % 16 == 0
    if not (square and multiples and fits) or min(x.shape[2:]) + 2 * padding < k:
        return False
    module = native.compiled()
    return module is not None and bool(module.has_amx())


def conv_bf16_amx(x: Tensor, weight: Tensor, bias: Tensor, stride: int, padding: int, relu: bool = True) -> Tensor:
    """Convolve, and apply a ReLU if `relu` is true. Inputs of uint8 are divided by 255.

    `x` is [N, C, H, W] uint8, or bfloat16 channels-last, and `weight` [D, C, k, k] and `bias` [D] are float32; the
    result [N, D, rows, columns] bfloat16 is channels-last in memory. Inputs and weights are rounded to bfloat16; sums
    and the weight's gradient are float32."""
    x = in_planes(x) if x.dtype == torch.uint8 else x.contiguous(memory_format=torch.channels_last)
    result: Tensor = _ConvBF16.apply(x, weight, bias, stride, padding, relu)
    return result


class _ConvBF16(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor, s: int, p: int, relu: bool) -> Tensor:
        N, C, H, W = x.shape
        D, k = weight.shape[0], weight.shape[2]
        ctx.geometry, ctx.of_bytes = (C, H, W, D, k, s, p), x.dtype == torch.uint8
        shape = N, (H + 2 * p - k) // s + 1, (W + 2 * p - k) // s + 1, D
        out = torch.empty(shape, dtype=torch.bfloat16)
        (numbers, tiles), b = _packed(weight, s, ctx.of_bytes), bias.contiguous()
        tensors = x, x.stride(0), tiles, b, out
        kind = N, ctx.geometry, ctx.of_bytes
        call(native.required(), "conv_bf16_amx", *kind, *tensors, relu, torch.get_num_threads())
        ctx.save_for_backward(x, out if relu else None, numbers)
        return out.permute(0, 3, 1, 2)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> Any:
        x, out, numbers = ctx.saved_tensors
        C, H, W, D, k, s, _ = ctx.geometry
        order = _Order.of(C, D, k, s, ctx.of_bytes)
        grad = grad.to(torch.bfloat16).permute(0, 2, 3, 1).contiguous()
        tiles, d_x = None, None
        if ctx.needs_input_grad[0]:
            tiles, d_x = numbers[order.back], torch.empty(len(x), H, W, C, dtype=torch.bfloat16)
        d_tiles, d_bias = torch.empty(order.sums), torch.empty(D)
        tensors = x, x.stride(0), grad, out, tiles, d_x, d_tiles, d_bias
        kind = len(x), ctx.geometry, ctx.of_bytes
        call(native.required(), "conv_bf16_back", *kind, *tensors, torch.get_num_threads())
        d_weight = d_tiles[order.gradient].view(D, C, k, k)
        if ctx.of_bytes:
            d_weight.div_(255)
        return None if d_x is None else d_x.permute(0, 3, 1, 2), d_weight, d_bias, None, None, None


# {address of a weight: (a copy of the weight, its repacked forms)}
_last: dict[int, tuple[Tensor, tuple[Tensor, Tensor]]] = {}


def _packed(weight: Tensor, s: int, of_bytes: bool) -> tuple[Tensor, Tensor]:
    """Return the weight in bfloat16, in its own order and in the order of tile registers. Repacked weights are cached,
    because acting uses the same weight at every step of a rollout."""
    D, C, k, _ = weight.shape
    kept = _last.get(weight.data_ptr())
    if kept is not None and torch.equal(kept[0], weight):
        return kept[1]
    # The weights are divided by 255 instead of the pixels, because there are fewer weights than pixels.
    numbers = (weight / 255 if of_bytes else weight).to(torch.bfloat16).flatten()
    packed = numbers, numbers[_Order.of(C, D, k, s, of_bytes).forward]
    if len(_last) >= 32:  # The cache is emptied, because its weights may be of deleted networks.
        _last.clear()
    _last[weight.data_ptr()] = weight.detach().clone(), packed
    return packed


@dataclass(frozen=True)
class _Order:
    """The order in which AMX tile registers read a weight [D, C, k, k]. A block of s x s pixels has `inner` numbers:
    [C, s, s] if the input is planes of bytes, and otherwise [s, s, C]."""

    forward: Tensor
    """Indices of the weight's numbers in the order of a matrix product's right operand: [taps, inner / 32, D / 16, 16
    pairs, 16, 2]."""
    back: Tensor
    """Indices of the transposed weight of each tap, also in the order of a right operand. `back` is empty for byte
    inputs, which have no gradient."""
    gradient: Tensor
    """For each number of the weight, the position of its gradient in an array [taps, D / 32, inner / 32, 2, 2, 16 of D,
    16 of inner]."""
    sums: int

    @staticmethod
    @functools.cache
    def of(C: int, D: int, k: int, s: int, of_bytes: bool) -> "_Order":
        taps = (k // s) ** 2
        side = k // s
        inner = s * s * C
        parts = torch.arange(D * C * k * k).view(D, C, side, s, side, s)
        cells = parts.permute((2, 4, 1, 3, 5, 0) if of_bytes else (2, 4, 3, 5, 1, 0)).reshape(taps, inner, D)
        blocks = -(-D // 32)
        places = torch.arange(taps * blocks * inner * 32).view(taps, blocks, inner // 32, 2, 2, 16, 16)
        places = places.permute(0, 2, 4, 6, 1, 3, 5).reshape(taps, inner, blocks * 32)[:, :, :D]
        gradient = torch.empty(D * C * k * k, dtype=torch.long)
        gradient[cells.flatten()] = places.flatten()
        back = torch.empty(0, dtype=torch.long) if of_bytes else _tiles(cells.transpose(1, 2))
        return _Order(_tiles(cells), back, gradient, taps * blocks * inner * 32)


def _tiles(matrices: Tensor) -> Tensor:
    """Rearrange [n, K, M] to [n, K / 32, M / 16, 16 pairs of K, 16 of M, 2], and flatten it."""
    n, K, M = matrices.shape
    return matrices.reshape(n, K // 32, 16, 2, M // 16, 16).permute(0, 1, 4, 2, 5, 3).flatten()
