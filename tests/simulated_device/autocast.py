"""Autocast on simulated devices converts the arguments of the same torch operations as on CUDA."""

from collections.abc import Callable
from typing import Any

import torch

from tests.simulated_device.tensor import DeviceTensor

_LOWER = """_convolution conv1d conv2d conv3d conv_tbc conv_transpose1d conv_transpose2d conv_transpose3d convolution
prelu addmm addmv addr matmul einsum mm mv linalg_vecdot linear addbmm baddbmm bmm chain_matmul linalg_multi_dot
_thnn_fused_lstm_cell _thnn_fused_gru_cell lstm_cell gru_cell rnn_tanh_cell rnn_relu_cell
scaled_dot_product_attention"""
_FLOAT32 = """acos asin cosh erfinv exp expm1 log log10 log2 log1p reciprocal rsqrt sinh tan pow softplus layer_norm
native_layer_norm rms_norm group_norm frobenius_norm nuclear_norm cosine_similarity poisson_nll_loss
cosine_embedding_loss nll_loss nll_loss2d hinge_embedding_loss kl_div l1_loss smooth_l1_loss huber_loss mse_loss
margin_ranking_loss soft_margin_loss binary_cross_entropy_with_logits dist pdist cdist renorm logsumexp prod softmax
log_softmax cumprod cumsum linalg_vector_norm linalg_matrix_norm sum norm"""
_WIDEST = """addcdiv addcmul atan2 bilinear cross dot vdot grid_sampler index_put tensordot scatter_add cat stack"""

_KEY = "AutocastPrivateUse1"
_WITHOUT = torch._C.DispatchKeySet(torch._C.DispatchKey.AutocastPrivateUse1)
_FLOATS = (torch.float32, torch.bfloat16, torch.float16)


def _cast(value: Any, dtype: torch.dtype) -> Any:
    if isinstance(value, DeviceTensor):
        return value.to(dtype) if value.dtype in _FLOATS and value.dtype != dtype else value
    if type(value) in (list, tuple):
        return type(value)(_cast(x, dtype) for x in value)
    return value


def _kernel(func: Any, dtype_of: Callable[[Any], torch.dtype | None]) -> Callable[..., Any]:
    def kernel(*args: Any, **kwargs: Any) -> Any:
        with torch._C._ExcludeDispatchKeyGuard(_WITHOUT):
            dtype = dtype_of((args, *kwargs.values()))
            if dtype is not None:
                args = tuple(_cast(x, dtype) for x in args)
                kwargs = {n: _cast(x, dtype) for n, x in kwargs.items()}
            return func(*args, **kwargs)

    return kernel


def _lower(values: Any) -> torch.dtype:
    return torch.get_autocast_dtype("sim")


def _float32(values: Any) -> torch.dtype:
    return torch.float32


def _widest(values: Any) -> torch.dtype | None:
    found = {x.dtype for x in _tensors(values) if x.dtype in _FLOATS}
    return torch.float32 if torch.float32 in found else None


def _tensors(values: Any) -> list[DeviceTensor]:
    if isinstance(values, DeviceTensor):
        return [values]
    return [t for x in values for t in _tensors(x)] if type(values) in (list, tuple) else []


def register(library: torch.library.Library) -> None:
    for names, dtype_of in ((_LOWER, _lower), (_FLOAT32, _float32), (_WIDEST, _widest)):
        for name in names.split():
            packet = getattr(torch.ops.aten, name)
            for overload in packet.overloads():
                if "out" in overload or "imname" in overload:
                    continue
                full = name if overload == "default" else f"{name}.{overload}"
                library.impl(full, _kernel(getattr(packet, overload), dtype_of), _KEY)
