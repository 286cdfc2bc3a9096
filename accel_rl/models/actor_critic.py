"""An actor-critic network is a body with a policy head and a value head."""

from typing import Any

import torch
from torch import Tensor, nn

from accel_rl.data.spec import EnvSpec
from accel_rl.models.body import body
from accel_rl.models.layers import Head, orthogonal_
from accel_rl.models.precision import float32_head
from accel_rl.ops.policies import Categorical, Factorized, Gaussian, Policy


def policy_of(spec: EnvSpec) -> Policy:
    """The distribution of an environment's actions."""
    if spec.low:
        return Gaussian(spec.ranges)
    return Factorized(spec.choices) if spec.choices else Categorical(spec.n_actions, spec.mask)


class Heads(nn.Module):
    """A policy's outputs [N, K] and value [N] from features [N, F]. At the start of training, a categorical policy is
    nearly uniform, and a Gaussian policy has means near 0 and standard deviations of 1."""

    def __init__(self, features: int, policy: Policy):
        super().__init__()
        self.policy = orthogonal_(Head(features, policy.heads), 0.01)
        self.value = orthogonal_(Head(features, 1), 1.0)
        self.log_deviation = nn.Parameter(torch.zeros(policy.deviations)) if policy.deviations else None

    def forward(self, x: Tensor, value_x: Tensor | None = None) -> tuple[Tensor, Tensor]:
        outputs = float32_head(self.policy, x)
        if self.log_deviation is not None:
            outputs = torch.cat([outputs, self.log_deviation.expand(len(outputs), -1)], -1)
        return outputs, float32_head(self.value, x if value_x is None else value_x).squeeze(-1)


class ActorCritic(nn.Module):
    """A policy's outputs [N, K], such as logits, and value [N] from obs [N, ...].

    For images, both heads share a convolutional body (Mnih et al. 2016). For vectors, each head has its own body,
    because in a shared MLP the gradient of the value loss, with values of order 100, would dominate the gradient of the
    policy.
    """

    def __init__(self, spec: EnvSpec, network: str = "a3c", **layers: Any):
        """`layers` are options of the function `body`: layer_norm, hidden and activation."""
        super().__init__()
        self.body, features = body(spec, network, **layers)
        self.value_body = None if spec.picture else body(spec, network, **layers)[0]
        self.heads = Heads(features, policy_of(spec))

    def forward(self, obs: Tensor) -> tuple[Tensor, Tensor]:
        return self.heads(self.body(obs), None if self.value_body is None else self.value_body(obs))
