"""DQN is deep Q-learning (Mnih et al. 2015; Stooke & Abbeel 2018, sections 3.2, 5.3 and 5.4)."""

from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal, Self

import torch
from torch import Tensor
from typing_extensions import TypeVar

from accel_rl.agents.epsilon_greedy import EpsilonGreedyAgent
from accel_rl.algos.algorithm import Loss
from accel_rl.algos.network_config import NetworkConfig
from accel_rl.algos.replay_algorithm import ReplayAlgorithm, ReplayAlgorithmConfig
from accel_rl.data.spec import EnvSpec
from accel_rl.models.q_network import QNetwork
from accel_rl.ops.masks import masked
from accel_rl.ops.q_learning import (
    LEAST_LOG_POLICY,
    batched_index,
    huber,
    scaled_log_policy,
    soft_target,
    spread_powers,
)
from accel_rl.optim.optimizers import AnyOptimizer
from accel_rl.replays.ring import ReplayBatch
from accel_rl.text.bounds import BelowOne, NonNegative, NonNegativeCount, Positive, PositiveCount, Share


@dataclass(frozen=True)
class DQNConfig(NetworkConfig, ReplayAlgorithmConfig):
    """The defaults are those of Mnih et al. 2015, as Stooke & Abbeel 2018 train DQN with many simulators. The learning
    rates of Stooke & Abbeel are 2.5e-4 at batch size 32, 7.5e-4 at 512, and 15e-4 at 1,024."""

    learning_rate: Positive = 2.5e-4
    """Learning rate."""
    double: bool = False
    """In double Q-learning, the online network selects the next action, and the target network evaluates this action
    (van Hasselt et al. 2016)."""
    dueling: bool = False
    """A dueling network has separate streams for the state value and the action advantages (Wang et al. 2016)."""
    noisy: bool = False
    """A noisy network explores by learned noise in the fully connected layers, and not epsilon-greedily (Fortunato et
    al. 2018)."""
    noisy_sigma: Positive = 0.5
    """Initial standard deviation of a weight's noise, in units of 1 / sqrt(number of inputs) (Fortunato et al. 2018:
    0.5)."""
    munchausen: NonNegative = 0.0
    """Weight of the scaled log-policy that is added to the reward (Vieillard et al. 2020: 0.9). With 0, the log-policy
    is not added. With a weight above 0, the bootstrap value is the mean over a softmax policy, plus the policy's
    entropy."""
    munchausen_temperature: Positive = 0.03
    """Temperature of the softmax policy (Vieillard et al. 2020: 0.03)."""
    munchausen_policy: Literal["target", "online"] = "target"
    """Network whose log-policy is added to the reward: the target network (Vieillard et al. 2020), or the online
    network (Clark et al. 2024)."""
    huber: NonNegative = 1.0
    """Threshold of the Huber loss, which is quadratic for errors up to the threshold and linear beyond (Mnih et al.
    2015: 1). With 0, the loss is the squared error."""
    target_interval: PositiveCount = 10_000
    """Env steps between updates of the target network (Stooke & Abbeel's code: 10,000)."""
    epsilon: Share = 1.0
    """Initial epsilon of epsilon-greedy exploration, at the first update."""
    epsilon_final: Share = 0.1
    """Final epsilon of epsilon-greedy exploration (Mnih et al. 2015: 0.1)."""
    LONGEST_DECAY: ClassVar[int] = 1_000_000
    epsilon_steps: NonNegativeCount | None = None
    """Env steps, from the first update, over which epsilon decays linearly to its final value. By default, a tenth of
    the run, but at most the 1 M of Mnih et al. 2015."""
    epsilon_unit: Literal["env-steps", "updates"] = "env-steps"
    """Unit of epsilon_steps. With `updates`, epsilon decays over a number of updates by all learners (Nair et al. 2015,
    section 5.1: over 1 M updates)."""
    units: ClassVar[tuple[str, ...]] = ("target_unit", "epsilon_unit")
    epsilon_spread: NonNegative = 0.0
    """Environment i of B explores with epsilon^(1 + spread i / (B - 1)) (Horgan et al. 2018: 7). With 0, all
    environments use the same epsilon."""
    epsilon_evaluation: Share = 0.05
    """Epsilon in evaluations (Mnih et al. 2015: 0.05)."""
    optimizer: AnyOptimizer = "rmsprop"
    """Optimizer of the parameters. `rmsprop` adds epsilon inside the root, and names with -torch add epsilon outside
    the root. The `centered` forms of RMSProp follow Mnih et al. 2015. `adagrad` follows Nair et al. 2015, section 4.2
    (Duchi et al. 2011). `torch:AdamW(weight_decay=0.01)` is a class of torch.optim with its options."""
    rmsprop_alpha: BelowOne = 0.95
    """Decay factor of RMSProp's running mean of squared gradients (Mnih et al. 2015: 0.95)."""
    optimizer_eps: Positive = 1e-6
    """Epsilon of the optimizer (Stooke & Abbeel's code: 1e-6; Mnih et al. 2015: 0.01, centered)."""
    network: str = "dqn"

    def usual_loss(self) -> float:
        """The loss for an error of twice the largest clipped reward. If the agent wins a point although its value
        predicted a lost point, the error is twice the clipped reward."""
        error = torch.tensor(2 * (self.reward_clip or 0.0))
        return float(huber(error, self.huber)) / self.batch_size

    def inactive(self) -> dict[str, str]:
        needs = super().inactive()
        if not self.noisy:
            needs["noisy_sigma"] = "--noisy"
        if not self.munchausen:
            needs |= dict.fromkeys(("munchausen_temperature", "munchausen_policy"), "--munchausen")
        if not self.explores_by_epsilon:
            names = ("epsilon", "epsilon_final", "epsilon_steps", "epsilon_spread", "epsilon_unit")
            needs |= dict.fromkeys(names, "exploration by epsilon (--no-noisy)")
        return needs

    @property
    def explores_by_epsilon(self) -> bool:
        """Whether the agent explores epsilon-greedily. If the agent explores otherwise, epsilon is 0 after the initial
        random play."""
        return not self.noisy

    @property
    def decay_steps(self) -> int:
        """Return the setting epsilon_steps or its default, which depends on the length of the run. While the length is
        unknown, return the largest default."""
        return self.LONGEST_DECAY if self.epsilon_steps is None else self.epsilon_steps

    def for_run(self, env_steps: int) -> Self:
        length = env_steps
        if self.epsilon_unit == "updates":
            length = round(env_steps * self.intensity / self.transitions_per_update)
        shortest = min(length // 10, self.LONGEST_DECAY)
        return replace(self, epsilon_steps=shortest) if self.epsilon_steps is None else self


C = TypeVar("C", bound=DQNConfig, default=DQNConfig, covariant=True)


class DQN(ReplayAlgorithm[C]):
    """Learns action values from a replay, with a target network."""

    Config: ClassVar[type[DQNConfig]] = DQNConfig
    agent: EpsilonGreedyAgent
    sampling = {"envs": 16, "horizon": None}  # noqa: RUF012

    def build_agent(self, spec: EnvSpec) -> EpsilonGreedyAgent:
        return self.explorer(EpsilonGreedyAgent(self.build_model(spec), 1.0, self.config.epsilon_evaluation))

    def explorer(self, agent: EpsilonGreedyAgent) -> EpsilonGreedyAgent:
        """The given agent, with a different epsilon in each environment if epsilon_spread is set."""
        c = self.config
        if c.epsilon_spread and c.explores_by_epsilon:
            agent.spread(spread_powers(c.epsilon_spread, 0, self.B, self.B, self.device))
        return agent

    def build_model(self, spec: EnvSpec) -> QNetwork:
        return QNetwork(spec, self.config.network, **self.network_options())

    def network_options(self) -> dict[str, Any]:
        c = self.config
        sigma = c.noisy_sigma if c.noisy else 0.0
        return {"is_dueling": c.dueling, "sigma": sigma, **c.layers}

    def resample_noise(self) -> None:
        # A subclass may have another agent, whose network has no noise.
        if isinstance(self.agent, EpsilonGreedyAgent) and self.agent.model.noisy:
            seed = self.replay.draw_seed()
            self.agent.model.resample(2 * seed)
            self.target.resample(2 * seed + 1)

    def schedules(self, progress: float, env_steps: int) -> dict[str, float]:
        return {**super().schedules(progress, env_steps), "epsilon": self.epsilon_at(env_steps)}

    def epsilon_at(self, env_steps: int) -> float:
        """Epsilon is 1 during the initial random play, and then decays linearly. With a noisy network, epsilon is 0
        after the initial random play."""
        c = self.config
        if c.epsilon_unit == "updates":
            done, begun = self.run_updates, self.run_updates > 0
        else:
            done = env_steps - c.replay.start
            begun = done >= 0
        if not begun:
            return 1.0
        if not c.explores_by_epsilon:
            return 0.0
        return c.epsilon_final + (c.epsilon - c.epsilon_final) * self.epsilon_left(done)

    def epsilon_left(self, done: int) -> float:
        """The remaining fraction of epsilon's decay, from 1 to 0, `done` env steps or updates after the first
        update."""
        c = self.config
        return 1 - min(done / c.decay_steps, 1.0) if c.decay_steps else 0.0

    def loss(self, batch: ReplayBatch) -> Loss:
        """E[w huber(r + gamma q'(s', a*) - q(s, a))], the weighted Huber loss of the temporal difference (Mnih et al.
        2015, algorithm 1)."""
        q = self.agent.model.q(batch.obs_tm1)
        with torch.no_grad():
            outputs_t = self.target.q(batch.obs_t)
            q_t = self.agent.model.q(batch.obs_t) if self.config.double else outputs_t
            reward, value = self.bootstrap(batch, q.detach(), q_t, outputs_t)
        error = reward + batch.discount_t * value - batched_index(q, batch.a_tm1)
        return self.combine_losses(batch, huber(error, self.config.huber), error, q)

    def bootstrap(self, batch: ReplayBatch, q_tm1: Tensor, q_t: Tensor, outputs_t: Tensor) -> tuple[Tensor, Tensor]:
        """Return the reward [N] and the value [N] or [N, Z] of the target reward + discount x value.

        The value is that of the action with the largest value in q_t [N, A], according to the target network's
        outputs_t [N, A] or [N, A, Z]. With Munchausen's term, the value is a mean over the softmax policy of q_t.
        `q_tm1` [N, A] are the online network's values before the step."""
        c, mask = self.config, self.spec.mask
        q_t = masked(q_t, batch.obs_t, mask)
        if not c.munchausen:
            return batch.r_t, batched_index(outputs_t, q_t.argmax(-1))
        q = q_tm1 if c.munchausen_policy == "online" else self.target.q(batch.obs_tm1)
        q = masked(q, batch.obs_tm1, mask)
        log_policy = batched_index(scaled_log_policy(q, c.munchausen_temperature), batch.a_tm1)
        bonus = c.munchausen * log_policy.clamp(min=LEAST_LOG_POLICY)
        return soft_target(batch.r_t, batch.discount_t, q_t, outputs_t, c.munchausen_temperature, bonus)
