"""A body with a policy head and a value head."""

import math
from typing import cast

from torch import Tensor, nn

from accel_rl.data.spec import EnvSpec
from accel_rl.models.convolution import A3CNet
from accel_rl.models.initialize import orthogonal_
from accel_rl.models.mlp import MLP


class ActorCritic(nn.Module):
    """obs [N, ...] -> (logits [N, A], value [N]).

    Pictures: A3C-Net, shared by both heads (Mnih et al. 2016). Vectors: an MLP each, since values of order 100 would
    otherwise drown the policy's gradient in the shared one.
    """

    def __init__(self, spec: EnvSpec):
        super().__init__()
        self.body: nn.Module
        self.value_body: nn.Module | None = None
        if spec.is_image:
            self.body = A3CNet(spec.stack, *spec.frame_shape)
        else:
            size = math.prod(spec.frame_shape) * spec.stack
            self.body, self.value_body = MLP(size), MLP(size)
        features = cast(int, self.body.out_features)
        # A nearly uniform first policy, a value of order one.
        self.policy = orthogonal_(nn.Linear(features, spec.n_actions), 0.01)
        self.value = orthogonal_(nn.Linear(features, 1), 1.0)

    def forward(self, obs: Tensor) -> tuple[Tensor, Tensor]:
        x = self.body(obs)
        v = x if self.value_body is None else self.value_body(obs)
        return self.policy(x), self.value(v).squeeze(-1)
