"""An actor-critic network is a body with a policy head and a value head."""

from typing import Any

from torch import Tensor, nn

from accel_rl.data.spec import EnvSpec
from accel_rl.models.body import body
from accel_rl.models.layers import Head, orthogonal_
from accel_rl.models.precision import float32_head


class Heads(nn.Module):
    """Logits [N, A] and value [N] from features [N, F]. At the start of training, the policy is nearly uniform."""

    def __init__(self, features: int, n_actions: int):
        super().__init__()
        self.policy = orthogonal_(Head(features, n_actions), 0.01)
        self.value = orthogonal_(Head(features, 1), 1.0)

    def forward(self, x: Tensor, value_x: Tensor | None = None) -> tuple[Tensor, Tensor]:
        return float32_head(self.policy, x), float32_head(self.value, x if value_x is None else value_x).squeeze(-1)


class ActorCritic(nn.Module):
    """Logits [N, A] and value [N] from obs [N, ...].

    For images, both heads share a convolutional body (Mnih et al. 2016). For vectors, each head has its own body,
    because in a shared MLP the gradient of the value loss, with values of order 100, would dominate the gradient of the
    policy.
    """

    def __init__(self, spec: EnvSpec, network: str = "a3c", **layers: Any):
        """`layers` are those of `body`: layer_norm, hidden and activation."""
        super().__init__()
        self.body, features = body(spec, network, **layers)
        self.value_body = None if spec.picture else body(spec, network, **layers)[0]
        self.heads = Heads(features, spec.n_actions)

    def forward(self, obs: Tensor) -> tuple[Tensor, Tensor]:
        return self.heads(self.body(obs), None if self.value_body is None else self.value_body(obs))
