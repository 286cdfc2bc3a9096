"""A body with a policy head and a value head."""

import math

import torch
from torch import Tensor, nn

from accel_rl.data.spec import EnvSpec
from accel_rl.models.convolution import A3CNet
from accel_rl.models.mlp import MLP


def orthogonal_(layer: nn.Linear | nn.Conv2d, gain: float) -> nn.Linear | nn.Conv2d:
    """Orthogonal weights (Saxe et al. 2014), zero bias."""
    nn.init.orthogonal_(layer.weight, gain)
    assert layer.bias is not None
    nn.init.zeros_(layer.bias)
    return layer


class ActorCritic(nn.Module):
    """obs [N, ...] -> (logits [N, A], value [N]). A3C-Net for pictures, an MLP for vectors; the body is shared."""

    def __init__(self, spec: EnvSpec):
        super().__init__()
        if spec.is_image:
            self.body: nn.Module = A3CNet(spec.stack, *spec.frame_shape)
        else:
            self.body = MLP(int(torch.Size(spec.frame_shape).numel()) * spec.stack)
        for layer in self.body.modules():
            if isinstance(layer, nn.Linear | nn.Conv2d):  # torch's own start shrinks the signal by half in each layer
                orthogonal_(layer, math.sqrt(2))
        features = int(self.body.out_features)  # type: ignore[arg-type]
        # A nearly uniform first policy, a value of order one.
        self.policy = orthogonal_(nn.Linear(features, spec.n_actions), 0.01)
        self.value = orthogonal_(nn.Linear(features, 1), 1.0)

    def forward(self, obs: Tensor) -> tuple[Tensor, Tensor]:
        x = self.body(obs)
        return self.policy(x), self.value(x).squeeze(-1)
