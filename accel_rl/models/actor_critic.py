"""An actor-critic network is a body with a policy head and a value head."""

import math
from typing import cast

import torch
from torch import Tensor, nn

from accel_rl.data.spec import EnvSpec
from accel_rl.models.layers import MLP, Head, LayerNorm, orthogonal_
from accel_rl.models.networks import find_network
from accel_rl.models.precision import float32_head
from accel_rl.ops.policies import Categorical, Factorized, Gaussian, Policy


def body(spec: EnvSpec, network: str = "a3c", layer_norm: LayerNorm = "none") -> tuple[nn.Module, int]:
    """The module that computes features from observations (an MLP for vectors), and the number of features."""
    if spec.is_image:
        height, width = spec.frame_shape[-2:]
        net: nn.Module = find_network(network)(spec.channels, height, width, layer_norm=layer_norm)
    else:
        net = MLP(math.prod(spec.frame_shape) * spec.stack, layer_norm=layer_norm)
    return net, cast(int, net.out_features)


def policy_of(spec: EnvSpec) -> Policy:
    """The distribution of an environment's actions."""
    if spec.low:
        return Gaussian(spec.ranges)
    return Factorized(spec.choices) if spec.choices else Categorical(spec.n_actions)


class Heads(nn.Module):
    """A policy's outputs [N, K] and value [N] from features [N, F]. At the start of training, a policy of choices is
    nearly uniform, and a normal distribution has means near 0 and standard deviations of 1."""

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

    For images, both heads share a convolutional body (Mnih et al. 2016). For vectors, each head has its own MLP,
    because in a shared MLP the gradient of the value loss, with values of order 100, would dominate the gradient of the
    policy.
    """

    def __init__(self, spec: EnvSpec, network: str = "a3c", layer_norm: LayerNorm = "none"):
        super().__init__()
        self.body, features = body(spec, network, layer_norm)
        self.value_body = None if spec.is_image else body(spec, layer_norm=layer_norm)[0]
        self.heads = Heads(features, policy_of(spec))

    def forward(self, obs: Tensor) -> tuple[Tensor, Tensor]:
        return self.heads(self.body(obs), None if self.value_body is None else self.value_body(obs))
