"""A user's script: an algorithm with an additional setting, a callback and a sink."""
# pyright: strict

from dataclasses import dataclass
from typing import assert_type

import torch
from torch import Tensor, nn

import accel_rl
from accel_rl import A2C, DQN, Callback, Sink
from accel_rl.agents.epsilon_greedy import EpsilonGreedyAgent
from accel_rl.agents.policy import CategoricalPolicyAgent
from accel_rl.algos.a2c import A2CConfig
from accel_rl.algos.algorithm import Loss
from accel_rl.algos.dqn import DQNConfig
from accel_rl.algos.policy_gradient import PolicyBatch
from accel_rl.optim.optimizer import Rate
from accel_rl.replays.ring import ReplayBatch
from accel_rl.samplers.episodes import Episode
from accel_rl.training.callback import Training


@dataclass(frozen=True)
class MyConfig(A2CConfig):
    scale: float = 1.0


class MyA2C(A2C[MyConfig]):
    Config = MyConfig

    def loss(self, batch: PolicyBatch) -> Loss:
        loss = super().loss(batch)
        loss.total = loss.total * self.config.scale
        assert_type(self.config, MyConfig)
        assert_type(self.agent, CategoricalPolicyAgent)
        assert_type(self.agent.forward(batch.obs)[1], Tensor)
        return loss


class MyDQN(DQN):
    """A DQN without additional settings."""

    def loss(self, batch: ReplayBatch) -> Loss:
        assert_type(self.config, DQNConfig)
        assert_type(self.config.hidden, tuple[int, ...])
        assert_type(self.agent, EpsilonGreedyAgent)
        assert_type(self.now.learning_rate, Rate)
        return super().loss(batch)


class MyNet(nn.Module):
    def __init__(self, shape: tuple[int, ...]):
        super().__init__()
        self.layer = nn.Linear(shape[0], 64)

    def forward(self, obs: Tensor) -> Tensor:
        return torch.relu(self.layer(obs))


class Stop(Callback):
    def on_episode(self, training: Training, episode: Episode) -> bool:
        assert_type(episode.score, float)
        assert_type(training.score, float)
        return episode.length < 1_000


class Rows(Sink):
    pass


run = accel_rl.train(MyConfig(scale=2.0), env="CartPole-v1", callbacks=[Stop()], sinks=[Rows], ranks=2, cores=range(2))
accel_rl.train(MyDQN, env="CartPole-v1", network=MyNet, hidden=(64, 64), activation="elu")
