"""Operations that torch has only for GPUs, written for host tensors."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor


def lstm_cell(
    igates: Tensor, hgates: Tensor, cx: Tensor, input_bias: Tensor | None = None, hidden_bias: Tensor | None = None
) -> tuple[Tensor, Tensor, Tensor]:
    """Return the new (h, c) [B, N] and the gates [B, 4 N], which the backward pass needs. igates, hgates: [B, 4 N]."""
    if input_bias is not None and hidden_bias is not None:
        igates, hgates = igates + input_bias, hgates + hidden_bias
    i, f, g, o = (hgates + igates).chunk(4, 1)
    i, f, g, o = i.sigmoid(), f.sigmoid(), g.tanh(), o.sigmoid()
    cy = f * cx + i * g
    return o * cy.tanh(), cy, torch.cat([i, f, g, o], 1)


def lstm_cell_backward(
    grad_hy: Tensor | None, grad_cy: Tensor | None, cx: Tensor, cy: Tensor, workspace: Tensor, has_bias: bool
) -> tuple[Tensor | None, Tensor | None, Tensor | None]:
    """Return the gradients of the gates [B, 4 N], of cx [B, N] and of a bias [4 N]."""
    if grad_hy is None and grad_cy is None:
        return None, None, None
    i, f, g, o = workspace.chunk(4, 1)
    tanh = cy.tanh()
    grad_hy = torch.zeros_like(cy) if grad_hy is None else grad_hy
    grad_c = grad_hy * o * (1 - tanh * tanh)
    grad_c = grad_c if grad_cy is None else grad_c + grad_cy
    gates = (
        grad_c * g * i * (1 - i),
        grad_c * cx * f * (1 - f),
        grad_c * i * (1 - g * g),
        grad_hy * tanh * o * (1 - o),
    )
    grad = torch.cat(gates, 1)
    return grad, grad_c * f, grad.sum(0) if has_bias else None


KERNELS: dict[str, Callable[..., Any]] = {
    "aten::_thnn_fused_lstm_cell": lstm_cell,
    "aten::_thnn_fused_lstm_cell_backward_impl": lstm_cell_backward,
}
