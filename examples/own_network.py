"""This example trains PPO with a user's own network on Pong."""

import sys

import torch
from torch import Tensor, nn

import accel_rl
from accel_rl import PPO
from accel_rl.agents.policy import CategoricalPolicyAgent
from accel_rl.data.spec import EnvSpec


class PooledNet(nn.Module):
    """Maps obs [N, S, H, W] uint8 to (logits [N, A], value [N])."""

    def __init__(self, spec: EnvSpec):
        super().__init__()
        self.body = nn.Sequential(
            nn.AvgPool2d(2), nn.Conv2d(spec.stack, 16, 5, stride=3), nn.ReLU(),
            nn.Conv2d(16, 32, 3, stride=2), nn.ReLU(),
            nn.Flatten(), nn.LazyLinear(128), nn.ReLU(),
        )  # fmt: skip
        self.policy, self.value = nn.Linear(128, spec.n_actions), nn.Linear(128, 1)
        self(torch.zeros(1, *spec.obs_shape))  # A first batch determines the size of the lazy layer.

    def forward(self, obs: Tensor) -> tuple[Tensor, Tensor]:
        x = self.body(obs.float() / 255)
        return self.policy(x), self.value(x).squeeze(-1)


class PooledPPO(PPO):
    def build_agent(self, spec: EnvSpec) -> CategoricalPolicyAgent:
        return CategoricalPolicyAgent(PooledNet(spec))


if __name__ == "__main__":
    env_steps = int(sys.argv[1]) if len(sys.argv) > 1 else 500_000
    run = accel_rl.train(PooledPPO, game="pong", env_steps=env_steps, seed=1)
    print(run.evaluate(episodes=2 if env_steps < 10_000 else 30).mean)
