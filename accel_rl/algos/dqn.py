"""Deep Q-learning (Mnih et al. 2015; Stooke & Abbeel 2018, sections 3.2, 5.3 and 5.4)."""

import math
from dataclasses import dataclass, field
from typing import Literal

import torch
from torch import Tensor

from accel_rl.agents.epsilon_greedy import EpsilonGreedyAgent
from accel_rl.algos.base import Loss, require
from accel_rl.algos.replay_algorithm import ReplayAlgorithm, ReplayAlgorithmConfig
from accel_rl.data.replay_batch import ReplayBatch
from accel_rl.data.spec import EnvSpec
from accel_rl.models.q_network import QNetwork
from accel_rl.ops.q_learning import chosen, double_q_target, huber
from accel_rl.optim.factory import OptimizerName, make_optimizer
from accel_rl.optim.optimizer import Optimizer
from accel_rl.replays.config import ReplayConfig
from accel_rl.replays.returns import NStep
from accel_rl.system.counts import Count


@dataclass(frozen=True)
class DQNConfig(ReplayAlgorithmConfig):
    """Defaults: Mnih et al. 2015, as Stooke & Abbeel 2018 train it with many simulators.

    The paper's batches and step sizes: 32 at 2.5e-4, 512 at 7.5e-4, 1,024 at 15e-4.
    """

    replay: ReplayConfig = field(default_factory=ReplayConfig)
    batch_size: Count = 32
    """Transitions of one update, of all ranks that share it (Stooke & Abbeel, section 5.4: 32 to 2,048)."""
    intensity: float = 8.0
    """Training intensity: how often each transition is used on average (section 5: 8). The number of updates in a cycle
    follows from it and the batch size."""
    learning_rate: float = 2.5e-4
    """Step size of the update optimizer."""
    learning_rate_schedule: Literal["constant", "linear"] = "constant"
    """Linear: down to zero at the end of the run."""
    gamma: float = 0.99
    """Discount per agent step (Mnih et al. 2015)."""
    n_step: int = 1
    """Rewards that a target sums before it bootstraps (Sutton 1988)."""
    double: bool = False
    """The learner chooses the next action that the target network values (van Hasselt et al. 2016)."""
    dueling: bool = False
    """Separate streams for the value of the state and of the actions (Wang et al. 2016)."""
    noisy: bool = False
    """Fully connected layers with learned noise instead of epsilon (Fortunato et al. 2018)."""
    huber: float = 1.0
    """Errors beyond this count linearly (Mnih et al. 2015: 1); 0: squared throughout."""
    reward_clip: float = 1.0
    """Rewards are clipped to +- this for learning, never in scores; 0: not at all (Mnih et al. 2015: 1)."""
    clip_grad_norm: float = 0.0
    """Largest L2 norm of the gradient; 0: any."""
    target_interval: Count = 10_000
    """Env steps between copies to the target network (Stooke & Abbeel's code: 10,000)."""
    epsilon: float = 1.0
    """Share of random actions when learning begins."""
    epsilon_final: float = 0.1
    """And at the end of its descent (Mnih et al. 2015: 0.1)."""
    epsilon_steps: Count = 1_000_000
    """Env steps of the descent, counted from the first update (Mnih et al. 2015: 1 M)."""
    epsilon_spread: float = 0.0
    """Environment i of B explores with epsilon^(1 + spread i / (B - 1)) (Horgan et al. 2018: 7); 0: all alike."""
    epsilon_evaluation: float = 0.05
    """In evaluations (Mnih et al. 2015: 0.05)."""
    optimizer: OptimizerName = "rmsprop"
    """Update optimizer. RMSProp has its epsilon inside the root or, -torch, outside; centered: Mnih et al. 2015."""
    rmsprop_alpha: float = 0.95
    """RMSProp's memory of squared gradients (Mnih et al. 2015: 0.95)."""
    optimizer_eps: float = 1e-6
    """The optimizer's epsilon (Stooke & Abbeel's code: 1e-6; Mnih et al. 2015: 0.01, centered)."""
    network: Literal["a3c", "dqn", "nature"] = "dqn"
    """Convolutions for pictures: two (Mnih et al. 2016), three padded (Stooke & Abbeel), three (Mnih et al. 2015)."""

    @property
    def optimizer_name(self) -> str:
        return self.optimizer

    def check(self) -> None:
        positive, share, zero = "above 0", "between 0 and 1", "0 or more"
        require(
            self,
            batch_size=(self.batch_size >= 1, "at least 1"),
            intensity=(0 < self.intensity < math.inf, positive),
            learning_rate=(0 < self.learning_rate < math.inf, positive),
            gamma=(0 <= self.gamma <= 1, share),
            n_step=(self.n_step >= 1, "at least 1"),
            huber=(self.huber >= 0, zero),
            reward_clip=(self.reward_clip >= 0, zero),
            clip_grad_norm=(self.clip_grad_norm >= 0, zero),
            target_interval=(self.target_interval >= 1, "at least 1"),
            epsilon=(0 <= self.epsilon <= 1, share),
            epsilon_final=(0 <= self.epsilon_final <= 1, share),
            epsilon_steps=(self.epsilon_steps >= 0, zero),
            epsilon_spread=(self.epsilon_spread >= 0, zero),
            epsilon_evaluation=(0 <= self.epsilon_evaluation <= 1, share),
            rmsprop_alpha=(0 <= self.rmsprop_alpha < 1, "at least 0 and below 1"),
            optimizer_eps=(0 < self.optimizer_eps < math.inf, positive),
        )
        self.replay.check()


class DQN(ReplayAlgorithm):
    """Learns the value of every action from a replay, against a target network."""

    Config = DQNConfig
    sampling = {"envs": 16, "horizon": None}  # noqa: RUF012

    def build_agent(self, spec: EnvSpec) -> EpsilonGreedyAgent:
        return EpsilonGreedyAgent(self.build_model(spec), epsilon_evaluation=self.config.epsilon_evaluation)

    def build_model(self, spec: EnvSpec) -> QNetwork:
        c = self.config
        return QNetwork(spec, c.network, is_dueling=c.dueling, noisy=c.noisy)

    def build_optimizer(self, size: int) -> Optimizer:
        c = self.config
        return make_optimizer(
            c.optimizer, size, alpha=c.rmsprop_alpha, epsilon=c.optimizer_eps, device=str(self.device)
        )

    def build_returns(self) -> NStep:
        return NStep(self.config.n_step, self.config.gamma, self.config.reward_clip)

    def resample_noise(self) -> None:
        if self.config.noisy:
            self.agent.model.resample()
            self.target.resample()

    @property
    def learning_rate(self) -> float:
        c = self.config
        return c.learning_rate * (1 - self.progress if c.learning_rate_schedule == "linear" else 1.0)

    @property
    def max_grad_norm(self) -> float | None:  # type: ignore[override]
        return self.config.clip_grad_norm or None

    def epsilon(self, ahead: int = 0) -> float | Tensor:
        """Share of random actions `ahead` env steps from here: one number, or [B] with a spread."""
        c = self.config
        done = self.env_steps + ahead - c.replay.start
        if done < 0:
            return 1.0
        if c.noisy:
            return 0.0
        share = min(done / c.epsilon_steps, 1.0) if c.epsilon_steps else 1.0
        epsilon = c.epsilon + (c.epsilon_final - c.epsilon) * share
        if not c.epsilon_spread:
            return epsilon
        power = 1 + c.epsilon_spread * torch.arange(self.B, device=self.device) / max(self.B - 1, 1)
        return torch.full((self.B,), epsilon, device=self.device) ** power

    def loss(self, batch: ReplayBatch) -> Loss:
        """E[w huber(r + gamma q'(s', a*) - q(s, a))], Mnih et al. 2015, algorithm 1."""
        q = self.agent.model.q(batch.obs_tm1)
        with torch.no_grad():
            q_t = self.target.q(batch.obs_t)
            selector = self.agent.model.q(batch.obs_t) if self.config.double else q_t
            target = double_q_target(batch.r_t, batch.discount_t, q_t, selector)
        error = target - chosen(q, batch.a_tm1)
        return self.combine_losses(batch, huber(error, self.config.huber), error, q)

    def combine_losses(self, batch: ReplayBatch, losses: Tensor, error: Tensor, q: Tensor) -> Loss:
        """The mean of losses [N] by the batch's weights; error [N] becomes the priority; q [N, A] is reported."""
        total = (batch.weight * losses).mean()
        metrics = {"loss": total, "td_error": error.abs().mean(), "q": q.max(-1).values.mean()}
        return Loss(total, {name: x.detach() for name, x in metrics.items()}, error.detach())
