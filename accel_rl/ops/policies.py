"""Distributions of actions, from the outputs of a network."""

from collections.abc import Sequence
from typing import Protocol

import torch
from torch import Tensor

from accel_rl.ops.policy_loss import entropy, log_prob, sample_categorical
from accel_rl.ops.q_learning import uniform_action
from accel_rl.ops.random_numbers import hashed_uniform

LOG_2_PI = 1.8378770664093453


class Policy(Protocol):
    """A distribution of actions, given by outputs [..., K] of a network. The network computes the first `heads` outputs
    from the observation; the last `deviations` outputs are parameters that do not depend on the observation. Actions
    have the shape [...], or [..., D] if each action consists of D numbers."""

    heads: int
    deviations: int

    mask: int

    def log_prob(self, outputs: Tensor, action: Tensor) -> Tensor:
        """log pi(a | s) [...]."""

    def entropy(self, outputs: Tensor) -> Tensor:
        """H(pi) [...], in nats."""

    def sample(self, outputs: Tensor, uniform: Tensor) -> Tensor:
        """Draw actions by random numbers `uniform` [...] in [0, 1), which are multiples of 2^-24."""

    def mode(self, outputs: Tensor) -> Tensor:
        """The most likely actions."""

    def random(self, uniform: Tensor) -> Tensor:
        """Draw uniformly random actions by random numbers `uniform` [...]."""


class Categorical:
    """One of n actions. If `mask` is above 0, observations contain a mask of the allowed actions."""

    deviations = 0

    def __init__(self, n: int, mask: int = 0):
        self.heads, self.mask = n, mask

    def log_prob(self, outputs: Tensor, action: Tensor) -> Tensor:
        return log_prob(outputs, action)

    def entropy(self, outputs: Tensor) -> Tensor:
        return entropy(outputs)

    def sample(self, outputs: Tensor, uniform: Tensor) -> Tensor:
        return sample_categorical(outputs, uniform)

    def mode(self, outputs: Tensor) -> Tensor:
        return outputs.argmax(-1)

    def random(self, uniform: Tensor) -> Tensor:
        return uniform_action(uniform, self.heads)


class Factorized:
    """Actions of D independent choices. Choice d has choices[d] options. The outputs are the logits of choice 0, then
    those of choice 1, and so on."""

    deviations = mask = 0

    def __init__(self, choices: Sequence[int]):
        self.choices, self.heads = list(choices), sum(choices)

    def log_prob(self, outputs: Tensor, action: Tensor) -> Tensor:
        parts = outputs.split(self.choices, -1)
        return torch.stack([log_prob(x, a) for x, a in zip(parts, action.unbind(-1), strict=True)]).sum(0)

    def entropy(self, outputs: Tensor) -> Tensor:
        return torch.stack([entropy(x) for x in outputs.split(self.choices, -1)]).sum(0)

    def sample(self, outputs: Tensor, uniform: Tensor) -> Tensor:
        numbers = independent(uniform, len(self.choices)).unbind(-1)
        parts = outputs.split(self.choices, -1)
        return torch.stack([sample_categorical(x, u) for x, u in zip(parts, numbers, strict=True)], -1)

    def mode(self, outputs: Tensor) -> Tensor:
        return torch.stack([x.argmax(-1) for x in outputs.split(self.choices, -1)], -1)

    def random(self, uniform: Tensor) -> Tensor:
        numbers = independent(uniform, len(self.choices)).unbind(-1)
        return torch.stack([uniform_action(u, n) for u, n in zip(numbers, self.choices, strict=True)], -1)


class Gaussian:
    """D independent normal distributions (Schulman et al. 2017, section 6.1). The outputs are D means, then D
    logarithms of standard deviations. Samples are not clipped, so that log_prob is exact; the environment clips actions
    to its bounds."""

    mask = 0

    def __init__(self, ranges: Sequence[tuple[float, float]]):
        """`ranges` are the intervals [low, high] of uniformly random actions."""
        self.heads = self.deviations = len(ranges)
        self._ranges = list(ranges)

    def log_prob(self, outputs: Tensor, action: Tensor) -> Tensor:
        mean, log_deviation = outputs.chunk(2, -1)
        z = (action - mean) * (-log_deviation).exp()
        return (-0.5 * z.square() - log_deviation - 0.5 * LOG_2_PI).sum(-1)

    def entropy(self, outputs: Tensor) -> Tensor:
        return (outputs.chunk(2, -1)[1] + 0.5 * (LOG_2_PI + 1)).sum(-1)

    def sample(self, outputs: Tensor, uniform: Tensor) -> Tensor:
        mean, log_deviation = outputs.chunk(2, -1)
        normal = torch.erfinv(2 * independent(uniform, self.heads) - 1) * 2**0.5
        return mean + log_deviation.exp() * normal.to(mean.dtype)

    def mode(self, outputs: Tensor) -> Tensor:
        return outputs.chunk(2, -1)[0]

    def random(self, uniform: Tensor) -> Tensor:
        low, high = torch.tensor(self._ranges, device=uniform.device).unbind(-1)
        return low + (high - low) * independent(uniform, self.heads).float()


def independent(uniform: Tensor, n: int) -> Tensor:
    """n numbers in (0, 1), float64 [..., n], from each uniform number [...], a multiple of 2^-24."""
    counter = (uniform.double() * 2**24).long().unsqueeze(-1) * n + torch.arange(n, device=uniform.device)
    return hashed_uniform(counter)
