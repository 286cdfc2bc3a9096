"""This module has operations on distributions of returns over fixed atoms (Bellemare et al. 2017, arXiv:1707.06887)."""

import torch
from torch import Tensor


def project(atoms_p: Tensor, p: Tensor, atoms: Tensor) -> Tensor:
    """Project a distribution onto the atoms, where each mass is split between its two neighbouring atoms (eq. 7).
    `atoms_p` [N, Z] are positions of the masses `p` [N, Z], and `atoms` [Z] are equally spaced, ascending. Returns
    probability masses [N, Z]. Mass outside the support goes to the first or the last atom."""
    low, high = atoms[0], atoms[-1]
    width = (high - low) / (len(atoms) - 1)
    near = (1 - (atoms_p.clamp(low, high)[:, None, :] - atoms[None, :, None]).abs() / width).clamp(0, 1)
    return torch.bmm(near, p[:, :, None]).squeeze(-1)


def expectation(logits: Tensor, atoms: Tensor) -> Tensor:
    """Return the expected value sum_i z_i softmax(logits)_i [...] of logits [..., Z] over atoms [Z]."""
    return torch.softmax(logits, -1) @ atoms


def cross_entropy(p: Tensor, logits: Tensor) -> Tensor:
    """Return the cross entropy -sum_i p_i log softmax(logits)_i [N] of p and logits [N, Z] (algorithm 1)."""
    return -(p * torch.log_softmax(logits, -1)).sum(-1)


def entropy(p: Tensor) -> Tensor:
    """Return the entropy -sum_i p_i log p_i [N], in nats, of p [N, Z]."""
    return -torch.special.xlogy(p, p).sum(-1)
