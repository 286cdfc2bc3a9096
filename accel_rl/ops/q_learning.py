"""The equations of Q-learning: targets, losses, dueling heads, and distributions of returns over atoms. As in rlax,
names that end in `_tm1` are of the time before a step, and names that end in `_t` of the time after the step."""

import torch
from torch import Tensor


def q_learning_target(r_t: Tensor, discount_t: Tensor, q_t: Tensor) -> Tensor:
    """r_t + discount_t max_a q_t(a) [N] (Mnih et al. 2015, algorithm 1), from r_t and discount_t [N] and q_t [N, A]."""
    return r_t + discount_t * q_t.max(-1).values


def double_q_target(r_t: Tensor, discount_t: Tensor, q_t: Tensor, q_t_selector: Tensor) -> Tensor:
    """r_t + discount_t q_t(argmax_a q_t_selector(a)) (van Hasselt et al. 2016, arXiv:1509.06461, eq. 4). `q_t` [N, A]
    is from the target network, `q_t_selector` [N, A] from the learner, and `r_t`, `discount_t` and the target are
    [N]."""
    return r_t + discount_t * batched_index(q_t, q_t_selector.argmax(-1))


def batched_index(q: Tensor, action: Tensor) -> Tensor:
    """Select the values [N] or [N, Z] of action [N] int64 from q [N, A] or [N, A, Z], like rlax's `batched_index`."""
    index = action.view(-1, *[1] * (q.dim() - 1)).expand(-1, 1, *q.shape[2:])
    return q.gather(1, index).squeeze(1)


def huber(error: Tensor, delta: float) -> Tensor:
    """1/2 error^2 within +- delta, and delta (|error| - delta / 2) beyond. With delta 0, 1/2 error^2 everywhere. With
    delta 1 the loss's gradient is the error clipped to +- 1 (Mnih et al. 2015, Methods)."""
    if not delta:
        return 0.5 * error.square()
    size = error.abs()
    near = size.clamp(max=delta)
    return 0.5 * near.square() + delta * (size - near)


def dueling(value: Tensor, advantage: Tensor) -> Tensor:
    """V + A - mean_a A (Wang et al. 2016, arXiv:1511.06581, eq. 9), of value [N, 1, ...] and advantage [N, A, ...]."""
    return value + advantage - advantage.mean(1, keepdim=True)


def uniform_action(uniform: Tensor, n_actions: int) -> Tensor:
    """Action [...] int64 from a random number `uniform` [...] in [0, 1)."""
    return (uniform * n_actions).long().clamp_(max=n_actions - 1)


def spread_powers(spread: float, first: int, B: int, of_all: int, device: torch.device) -> Tensor:
    """The exponents 1 + spread i / (of_all - 1), [B], of the environments i from `first` on, of `of_all` environments.
    Environment i explores with epsilon to the power of its exponent (Horgan et al. 2018)."""
    return 1 + spread * torch.arange(first, first + B, device=device) / max(of_all - 1, 1)


def epsilon_greedy(q: Tensor, uniform: Tensor, epsilon: Tensor) -> Tensor:
    """A uniformly random action with probability epsilon, and otherwise the first action with the highest value.

    From q [N, A], `uniform` [N] in [0, 1) and epsilon [N] or [], the result is action [N] int64. One uniform number
    decides whether to explore (uniform < epsilon); uniform / epsilon, which is again uniform in [0, 1), selects the
    random action.
    """
    return torch.where(uniform < epsilon, uniform_action(uniform / epsilon, q.shape[-1]), q.argmax(-1))


def project(atoms_p: Tensor, p: Tensor, atoms: Tensor) -> Tensor:
    """Each probability mass is split between the two atoms next to its position (Bellemare et al. 2017,
    arXiv:1707.06887, eq. 7). `atoms_p` [N, Z] are positions of the masses `p` [N, Z], and `atoms` [Z] are equally
    spaced, ascending. Returns probability masses [N, Z]. Mass outside the support goes to the first or the last
    atom."""
    low, high = atoms[0], atoms[-1]
    width = (high - low) / (len(atoms) - 1)
    near = (1 - (atoms_p.clamp(low, high)[:, None, :] - atoms[None, :, None]).abs() / width).clamp(0, 1)
    return torch.bmm(near, p[:, :, None]).squeeze(-1)


def expectation(logits: Tensor, atoms: Tensor) -> Tensor:
    """sum_i z_i softmax(logits)_i [...] of logits [..., Z] over atoms [Z]."""
    return torch.softmax(logits, -1) @ atoms


def cross_entropy(p: Tensor, logits: Tensor) -> Tensor:
    """-sum_i p_i log softmax(logits)_i [N] of p and logits [N, Z] (Bellemare et al. 2017, algorithm 1)."""
    return -(p * torch.log_softmax(logits, -1)).sum(-1)


def entropy(p: Tensor) -> Tensor:
    """-sum_i p_i log p_i [N], in nats, of p [N, Z]."""
    return -torch.special.xlogy(p, p).sum(-1)
