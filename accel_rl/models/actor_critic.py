"""A body with a policy head and a value head."""

import torch
from torch import Tensor, nn

from accel_rl.data.spec import EnvSpec
from accel_rl.models.convolution import A3CNet
from accel_rl.models.initialize import orthogonal_
from accel_rl.models.mlp import MLP


class ActorCritic(nn.Module):
    """obs [N, ...] -> (logits [N, A], value [N]). A3C-Net for pictures, an MLP for vectors; the body is shared."""

    def __init__(self, spec: EnvSpec):
        super().__init__()
        if spec.is_image:
            self.body: nn.Module = A3CNet(spec.stack, *spec.frame_shape)
        else:
            self.body = MLP(int(torch.Size(spec.frame_shape).numel()) * spec.stack)
        features = int(self.body.out_features)  # type: ignore[arg-type]
        # A nearly uniform first policy, a value of order one.
        self.policy = orthogonal_(nn.Linear(features, spec.n_actions), 0.01)
        self.value = orthogonal_(nn.Linear(features, 1), 1.0)

    def forward(self, obs: Tensor) -> tuple[Tensor, Tensor]:
        x = self.body(obs)
        return self.policy(x), self.value(x).squeeze(-1)
