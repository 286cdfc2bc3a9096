"""Select actions from a network's outputs, in one call of a compiled kernel if the extension is compiled."""

import torch
from torch import Tensor

from accel_rl.kernels import native
from accel_rl.kernels.native import call
from accel_rl.ops.policy_loss import log_prob
from accel_rl.ops.policy_loss import sample_categorical as sample_by_definition
from accel_rl.ops.q_learning import epsilon_greedy as epsilon_greedy_by_definition


def sample_categorical(logits: Tensor, uniform: Tensor) -> tuple[Tensor, Tensor]:
    """Sample actions from the distributions given by `logits` [N, A], with random numbers `uniform` [N] in [0, 1).
    Return (action [N] int64, log pi(action) [N])."""
    plain = logits.device.type == "cpu" and logits.dtype == uniform.dtype == torch.float32
    module = native.compiled() if plain and logits.dim() == 2 else None
    if module is None:
        action = sample_by_definition(logits, uniform)
        return action, log_prob(logits, action)
    logits, uniform = logits.contiguous(), uniform.contiguous()
    action, chosen = uniform.new_empty(len(uniform), dtype=torch.int64), torch.empty_like(uniform)
    call(module, "sample_categorical", *logits.shape, logits, uniform, action, chosen)
    return action, chosen


def epsilon_greedy(q: Tensor, uniform: Tensor, epsilon: Tensor) -> Tensor:
    """Return epsilon-greedy actions [N] int64, given q [N, A], random numbers `uniform` [N] in [0, 1), and epsilon [N]
    or []. The result is that of `epsilon_greedy` in ops/q_learning.py."""
    plain = q.device.type == "cpu" and q.dtype == uniform.dtype == epsilon.dtype == torch.float32 and q.dim() == 2
    module = native.compiled() if plain else None
    if module is None:
        return epsilon_greedy_by_definition(q, uniform, epsilon)
    q = q.contiguous()
    uniform = uniform.contiguous()
    epsilon = epsilon.contiguous()
    action = torch.empty(len(q), dtype=torch.int64)
    call(module, "epsilon_greedy", *q.shape, q, uniform, epsilon, epsilon.dim(), action)
    return action


def largest_value(q: Tensor) -> Tensor:
    """Return the largest of the values q [N, A] of each row, as [N]."""
    module = native.compiled_for(q) if q.dim() == 2 else None
    if module is None:
        return q.amax(-1)
    value = torch.empty(len(q))
    call(module, "largest_value", *q.shape, q, value)
    return value
