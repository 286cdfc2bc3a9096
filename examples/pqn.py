"""PQN (Gallici et al. 2024, arXiv:2407.04811) is Q-learning from rollouts, with neither a replay nor a target network.

`accel-rl train examples/pqn.py:PQN --game pong` trains this PQN, also with `--ranks 2`, on a GPU and in sweeps.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from accel_rl.agents.epsilon_greedy import EpsilonGreedyAgent
from accel_rl.algos.algorithm import AlgorithmConfig, Loss, require
from accel_rl.algos.minibatches import Minibatches
from accel_rl.algos.policy_gradient import PolicyBatch, PolicyGradient
from accel_rl.data.spec import EnvSpec
from accel_rl.models.layers import LayerNorm
from accel_rl.models.q_network import QNetwork
from accel_rl.ops.policy_loss import mean_over
from accel_rl.ops.q_learning import batched_index
from accel_rl.optim.optimizer import Optimizer
from accel_rl.optim.torch_optimizer import TorchOptimizer
from accel_rl.text.counts import Count


@dataclass(frozen=True)
class PQNConfig(AlgorithmConfig):
    """PQN's default settings are those of Gallici et al.'s code for Atari (purejaxql, pqn_atari.yaml)."""

    learning_rate: float = 2.5e-4
    """Learning rate."""
    learning_rate_schedule: str = "constant"
    """With `linear` the learning rate decays to zero over the run, and with `constant` the learning rate does not
    change."""
    gamma: float = 0.99
    """Discount per agent step."""
    gae_lambda: float = 0.65
    """Parameter lambda of the returns."""
    epochs: int = 2
    """Number of passes over each rollout."""
    minibatch: int = 128
    """Number of samples of one update, over all ranks that share the update (the authors: 128 x 32 / 32)."""
    epsilon_final: float = 0.001
    """Final epsilon."""
    epsilon_steps: Count = 1_000_000
    """Number of env steps over which epsilon decays from 1 to its final value (the authors: 10 % of 10 M)."""
    epsilon_evaluation: float = 0.0
    """Epsilon in evaluations."""
    clip_grad_norm: float = 10.0
    """L2 norm to which the gradient is clipped. With 0, the gradient is not clipped."""
    reward_clip: float | None = None
    """Absolute value to which rewards are clipped for learning. With 0, rewards are not clipped. By default, rewards
    are clipped to 1 in Atari games, and not clipped in other environments."""
    optimizer_eps: float = 1e-8
    """Epsilon of RAdam."""
    network: str = "nature"
    """Network: a3c, dqn, nature, or module:Class."""
    layer_norm: LayerNorm = "before"
    """Place of the layer norm, by default before each activation."""

    def check(self) -> None:
        require(
            self,
            learning_rate=(0 < self.learning_rate < math.inf, "above 0"),
            learning_rate_schedule=(self.learning_rate_schedule in ("constant", "linear"), "constant or linear"),
            epochs=(self.epochs >= 1, "at least 1"),
            minibatch=(self.minibatch >= 1, "at least 1"),
            epsilon_steps=(self.epsilon_steps >= 1, "at least 1"),
        )


class PQNAgent(EpsilonGreedyAgent):
    """An epsilon-greedy agent that also records max_a Q of each observation."""

    def record(self, q: Tensor) -> dict[str, Tensor]:
        return {"value": q.amax(-1)}


class PQN(PolicyGradient):
    """Lambda-returns are computed once per rollout, and are the targets of several epochs of minibatch updates. The
    lambda-return `batch.target` is the advantage of GAE with V = max_a Q, plus V.
    """

    Config = PQNConfig
    sampling = {"envs": 128, "horizon": 32}  # noqa: RUF012

    def build_agent(self, spec: EnvSpec) -> PQNAgent:
        c = self.config
        return PQNAgent(QNetwork(spec, c.network, layer_norm=c.layer_norm), 1.0, c.epsilon_evaluation)

    def build_optimizer(self, size: int) -> Optimizer:
        return TorchOptimizer(torch.optim.RAdam, size, str(self.device), eps=self.config.optimizer_eps)

    def schedules(self, progress: float, env_steps: int) -> dict[str, float]:
        c = self.config
        share = min(env_steps / c.epsilon_steps, 1.0)
        return {**super().schedules(progress, env_steps), "epsilon": 1 + (c.epsilon_final - 1) * share}

    def minibatches(self) -> Iterator[Tensor]:
        c = self.config
        return Minibatches(c.epochs, c.minibatch).draw(self.rollout, self.communicator)

    def loss(self, batch: PolicyBatch) -> Loss:
        """Return the loss E[(G^lambda - q(s, a))^2] / 2 (Gallici et al. 2024, algorithm 1)."""
        q = self.agent.model.q(batch.obs)
        error = batch.target - batched_index(q, batch.action)
        mean = mean_over(batch.valid)
        total = 0.5 * mean(error.square())
        metrics = {"loss": total, "td_error": mean(error.abs()), "q": q.amax(-1).mean()}
        return Loss(total, {name: x.detach() for name, x in metrics.items()}, samples=batch.samples)
