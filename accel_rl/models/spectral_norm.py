"""Spectral normalization (Miyato et al. 2018, arXiv:1802.05957)."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

FIRST_ITERATIONS = 15  # As in torch.nn.utils.parametrizations.spectral_norm
EPSILON = 1e-12


class SpectralNorm(nn.Module):
    """Divides a weight [D, ...] by an estimate of its largest singular value, as a matrix [D, inputs].

    In train mode, each call first makes one power iteration. In eval mode, the vectors u [D] and v [inputs] do not
    change, so acting, evaluations and target networks change no state. In BTR's code, acting, evaluations and target
    networks also make power iterations. u and v are buffers, which checkpoints and copies of the network contain. u and
    v are changed in place, because CUDA graphs read them at fixed addresses.
    """

    has_mode = True

    def __init__(self, weight: Tensor):
        super().__init__()
        self.u: Tensor
        self.v: Tensor
        for name, n in zip("uv", weight.flatten(1).shape, strict=True):
            vector = torch.empty(n)
            self.register_buffer(name, vector if vector.is_meta else vector.normal_())
        self.iterate(weight, FIRST_ITERATIONS)

    @torch.no_grad()
    def iterate(self, weight: Tensor, times: int = 1) -> None:
        if weight.is_meta:  # A weight on the meta device has no values, and its operations import torch's compiler.
            return
        matrix = weight.flatten(1)
        for _ in range(times):
            self.u.copy_(F.normalize(torch.mv(matrix, self.v), dim=0, eps=EPSILON))
            self.v.copy_(F.normalize(torch.mv(matrix.t(), self.u), dim=0, eps=EPSILON))

    def forward(self, weight: Tensor) -> Tensor:
        with torch.autocast(weight.device.type, enabled=False):
            if self.training:
                self.iterate(weight)
            # u and v are copied, because the next call may change them before the backward pass reads them.
            u, v = self.u.clone(), self.v.clone()
            return weight / torch.dot(u, torch.mv(weight.flatten(1), v))
