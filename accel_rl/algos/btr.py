"""BTR is Beyond the Rainbow (Clark et al. 2024, arXiv:2411.03820)."""

import math
from dataclasses import dataclass, field
from typing import ClassVar, Literal

from torch import Tensor
from typing_extensions import TypeVar

from accel_rl.algos.iqn import IQN, IQNConfig
from accel_rl.replays.config import ReplayConfig
from accel_rl.replays.ring import ReplayBatch
from accel_rl.text.bounds import BelowOne, NonNegative, NonNegativeCount, Positive, PositiveCount, Share


@dataclass(frozen=True)
class BTRConfig(IQNConfig):
    """The defaults are those of Clark et al. 2024, table D6, and of their code where the table reports no value."""

    replay: ReplayConfig = field(
        default_factory=lambda: ReplayConfig(
            size=2**20, start=200_000, prioritized=True, alpha=0.2, beta=0.2, beta_final=0.2
        )
    )
    batch_size: PositiveCount = 256
    """Number of transitions in one update, summed over all ranks that share the update (Clark et al. 2024: 256)."""
    intensity: Positive = 4.0
    """Training intensity: the average number of times that each transition is used. With an intensity of 4, one update
    trains on 256 transitions every 64 env steps."""
    learning_rate: Positive = 1e-4
    """Learning rate of Adam (Clark et al. 2024: 1e-4)."""
    optimizer_eps: Positive = 0.005 / 256
    """Epsilon of the optimizer (Clark et al. 2024: 0.005 / 256)."""
    gamma: BelowOne = 0.997
    """Discount factor (Clark et al. 2024: 0.997)."""
    n_step: PositiveCount = 3
    """Number of rewards in the n-step return before the bootstrap value (Clark et al. 2024: 3)."""
    clip_grad_norm: NonNegative = 10.0
    """L2 norm to which the gradient is clipped (Clark et al. 2024: 10). With 0, the gradient is not clipped."""
    target_interval: PositiveCount = 500
    """Interval between updates of the target network (Clark et al. 2024: 500 updates)."""
    target_unit: Literal["env-steps", "updates"] = "updates"
    """Unit of target_interval."""
    quantiles: PositiveCount = 8
    """Number of random quantiles of the action that was played (Clark et al. 2024: 8)."""
    target_quantiles: PositiveCount = 8
    """Number of random quantiles in the target. The mean of these quantiles is also the value of the next action (Clark
    et al. 2024: 8)."""
    value_quantiles: PositiveCount = 8
    """Number of random quantiles whose mean is the value of an action when acting (Clark et al. 2024: 8)."""
    dueling: bool = True
    """A dueling network has separate streams for the state value and the action advantages (Wang et al. 2016)."""
    noisy: bool = True
    """A noisy network explores by learned noise in the fully connected layers (Fortunato et al. 2018). BTR also
    explores epsilon-greedily."""
    munchausen: NonNegative = 0.9
    """Weight of the scaled log-policy that is added to the reward (Vieillard et al. 2020: 0.9). With 0, the log-policy
    is not added."""
    munchausen_policy: Literal["target", "online"] = "online"
    """Network whose log-policy is added to the reward: the online network (the code of Clark et al. 2024), or the
    target network (their paper, eq. E1)."""
    epsilon: Share = 0.01 + 0.99 * math.exp(-0.1)
    """Initial epsilon of epsilon-greedy exploration, at the first update. In the code of Clark et al. 2024, epsilon
    is 1 at the first step, and decays during the initial random play."""
    LONGEST_DECAY: ClassVar[int] = 2_000_000
    epsilon_steps: NonNegativeCount | None = 2_000_000
    """Env steps in which epsilon decays exponentially by a factor of e (the code of Clark et al. 2024: 2 M)."""
    epsilon_until: NonNegativeCount = 25_000_000
    """Env steps after which epsilon is 0 (Clark et al. 2024: 100 M frames)."""
    network: str = "btr"
    """Network for image observations: `btr` is the residual network of Clark et al. 2024. The other names of networks
    are the same as for `dqn`."""

    @property
    def explores_by_epsilon(self) -> bool:
        return True


C = TypeVar("C", bound=BTRConfig, default=BTRConfig, covariant=True)


class BTR(IQN[C]):
    """IQN with Munchausen's term, prioritized replay, 3-step returns, and noisy dueling streams."""

    Config: ClassVar[type[BTRConfig]] = BTRConfig
    FIRST_COSINE: ClassVar[int] = 0
    sampling = {"envs": 64, "horizon": None}  # noqa: RUF012

    def next_values(self, batch: ReplayBatch, features_t: Tensor, quantiles_t: Tensor) -> Tensor:
        """Without double Q-learning, the values of the next actions are the means of the target's random quantiles."""
        return super().next_values(batch, features_t, quantiles_t) if self.config.double else quantiles_t.mean(-1)

    def epsilon_at(self, env_steps: int) -> float:
        return super().epsilon_at(env_steps) if env_steps < self.config.epsilon_until else 0.0

    def epsilon_left(self, done: int) -> float:
        c = self.config
        return math.exp(-done / c.decay_steps) if c.decay_steps else 0.0
