"""The equations of Q-learning: targets, losses, dueling heads, and distributions of returns over atoms. As in rlax,
names with `_tm1` are values before a step, and names with `_t` are values after the step."""

import torch
from torch import Tensor


def batched_index(q: Tensor, action: Tensor) -> Tensor:
    """Select the values [N] or [N, Z] of action [N] int64 from q [N, A] or [N, A, Z], like rlax's `batched_index`."""
    index = action.view(-1, *[1] * (q.dim() - 1)).expand(-1, 1, *q.shape[2:])
    return q.gather(1, index).squeeze(1)


def scaled_log_policy(q: Tensor, temperature: float) -> Tensor:
    """temperature * log pi(a) [N, A] of pi = softmax(q / temperature), from q [N, A] (Vieillard et al. 2020,
    arXiv:2007.14430, appendix B.1)."""
    advantage = q - q.amax(-1, keepdim=True)
    return advantage - temperature * torch.logsumexp(advantage / temperature, -1, keepdim=True)


LEAST_LOG_POLICY = -1.0
"""Lower limit l0 of the scaled log-policy in the reward (Vieillard et al. 2020, section 4)."""


def soft_target(
    r_t: Tensor, discount_t: Tensor, q_t: Tensor, outputs_t: Tensor, temperature: float, log_policy_tm1: Tensor
) -> tuple[Tensor, Tensor]:
    """The target r + discount_t v of Munchausen learning (Vieillard et al. 2020, eq. 1). Returns the reward r [N] and
    the value v [N] or [N, Z].

    The policy is pi = softmax(q_t / temperature), from action values q_t [N, A]. v is the mean of outputs_t [N, A] or
    [N, A, Z] over pi. r is the sum of r_t, the policy's entropy after the step, and the weighted log-policy [N] of the
    action at the step.
    """
    scaled = scaled_log_policy(q_t, temperature)
    pi = (scaled / temperature).exp()
    value = (pi.view(*pi.shape, *[1] * (outputs_t.dim() - 2)) * outputs_t).sum(1)
    return r_t + log_policy_tm1 - discount_t * (pi * scaled).sum(-1), value


def huber(error: Tensor, delta: float) -> Tensor:
    """1/2 error^2 within +- delta, and delta (|error| - delta / 2) beyond. With delta 0, the loss is 1/2 error^2 for
    every error. With delta 1 the loss's gradient is the error clipped to +- 1 (Mnih et al. 2015, Methods)."""
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
    """The exponents 1 + spread i / (of_all - 1), [B], of the B environments from i = `first` on, where `of_all` is the
    number of all environments. Environment i explores with epsilon to the power of its exponent (Horgan et al.
    2018)."""
    return 1 + spread * torch.arange(first, first + B, device=device) / max(of_all - 1, 1)


def epsilon_greedy(q: Tensor, uniform: Tensor, epsilon: Tensor) -> Tensor:
    """Select a uniformly random action with probability epsilon, and otherwise the first action with the highest value.

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
