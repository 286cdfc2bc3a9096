"""epsilon-Rainbow is Rainbow (Hessel et al. 2018, arXiv:1710.02298) without noisy networks (Stooke & Abbeel 2018,
section 5.4.1)."""

from dataclasses import dataclass, field
from typing import ClassVar

from typing_extensions import TypeVar

from accel_rl.algos.c51 import C51, C51Config
from accel_rl.replays.config import ReplayConfig
from accel_rl.text.bounds import NonNegative, NonNegativeCount, Positive, PositiveCount


@dataclass(frozen=True)
class RainbowConfig(C51Config):
    """C51 with double and dueling networks, prioritized replay and 3-step returns. With --noisy, the algorithm is the
    full Rainbow.

    The default settings are those of Hessel et al. 2018, table 1, as Stooke & Abbeel 2018 train Rainbow, with the same
    values at all batch sizes.
    """

    replay: ReplayConfig = field(default_factory=lambda: ReplayConfig(start=20_000, prioritized=True))
    learning_rate: Positive = 6.25e-5
    """Learning rate of Adam (Hessel et al. 2018: 6.25e-5)."""
    optimizer_eps: Positive = 0.005
    """Epsilon of the optimizer. With Adam, epsilon is divided by the batch size (Stooke & Abbeel, section 5.4.1:
    0.005). With RMSProp, the optimizer's epsilon is not divided by the batch size."""
    n_step: PositiveCount = 3
    """Number of rewards in the n-step return before the bootstrap value (Hessel et al. 2018: 3)."""
    double: bool = True
    """In double Q-learning, the online network selects the next action, and the target network evaluates this action
    (van Hasselt et al. 2016)."""
    dueling: bool = True
    """A dueling network has separate streams for the state value and the action advantages (Wang et al. 2016)."""
    clip_grad_norm: NonNegative = 10.0
    """L2 norm to which the gradient is clipped (Wang et al. 2016: 10). With 0, the gradient is not clipped."""
    target_interval: PositiveCount = 8_000
    """Env steps between updates of the target network (Hessel et al. 2018: 32,000 frames)."""
    LONGEST_DECAY: ClassVar[int] = 62_500
    epsilon_steps: NonNegativeCount | None = None
    """Env steps, from the first update, over which epsilon decays linearly to its final value. By default, a tenth of
    the run, but at most the 250,000 frames of Hessel et al. 2018."""


C = TypeVar("C", bound=RainbowConfig, default=RainbowConfig, covariant=True)


class Rainbow(C51[C]):
    Config: ClassVar[type[RainbowConfig]] = RainbowConfig
