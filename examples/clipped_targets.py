"""DQN on CartPole with clipped targets, also as `accel-rl train examples.clipped_targets:ClippedDQN ...`."""

import sys
from dataclasses import dataclass

import torch

import accel_rl
from accel_rl.algos.algorithm import Loss
from accel_rl.algos.dqn import DQN, DQNConfig
from accel_rl.ops.q_learning import batched_index, huber
from accel_rl.replays.ring import ReplayBatch


@dataclass(frozen=True)
class ClippedDQNConfig(DQNConfig):
    limit: float = 100.0
    """Maximum absolute value of a target."""


class ClippedDQN(DQN):
    Config = ClippedDQNConfig

    def loss(self, batch: ReplayBatch) -> Loss:
        q = self.agent.model.q(batch.obs_tm1)
        with torch.no_grad():
            target = batch.r_t + batch.discount_t * self.target.q(batch.obs_t).amax(-1)
            target = target.clamp(-self.config.limit, self.config.limit)
        error = target - batched_index(q, batch.a_tm1)
        return self.combine_losses(batch, huber(error, self.config.huber), error, q)


if __name__ == "__main__":
    run = accel_rl.train(
        ClippedDQN,
        env="CartPole-v1",
        env_steps=int(sys.argv[1]) if len(sys.argv) > 1 else 50_000,
        limit=50.0,
        envs=8,
        replay__size=20_000,
        replay__start=500,
        learning_rate=5e-4,
        optimizer="adam",
        target_interval=500,
        epsilon_steps=10_000,
    )
    print(run.evaluate(episodes=10).mean)
