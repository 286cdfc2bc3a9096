"""epsilon-Rainbow (Hessel et al. 2018, arXiv:1710.02298, without its noise; Stooke & Abbeel 2018, section 5.4.1)."""

from dataclasses import dataclass, field

from accel_rl.algos.c51 import C51, C51Config
from accel_rl.replays.config import ReplayConfig
from accel_rl.system.counts import Count


@dataclass(frozen=True)
class RainbowConfig(C51Config):
    """C51 with double and dueling networks, prioritized replay and 3 steps. --noisy makes it the whole Rainbow.

    Defaults: Hessel et al. 2018, table 1, as Stooke & Abbeel 2018 train it (the same at all batch sizes).
    """

    replay: ReplayConfig = field(default_factory=lambda: ReplayConfig(start=20_000, prioritized=True))
    learning_rate: float = 6.25e-5
    """Step size of Adam (Hessel et al. 2018: 6.25e-5)."""
    optimizer_eps: float = 0.005
    """The optimizer's epsilon: of Adam times 1 / batch_size (Stooke & Abbeel, section 5.4.1: 0.005); of RMSProp as it
    stands."""
    n_step: int = 3
    """Rewards that a target sums before it bootstraps (Hessel et al. 2018: 3)."""
    double: bool = True
    """The learner chooses the next action that the target network values (van Hasselt et al. 2016)."""
    dueling: bool = True
    """Separate streams for the value of the state and of the actions (Wang et al. 2016)."""
    clip_grad_norm: float = 10.0
    """Largest L2 norm of the gradient (Wang et al. 2016: 10)."""
    target_interval: Count = 8_000
    """Env steps between copies to the target network (Hessel et al. 2018: 32,000 frames)."""
    epsilon_steps: Count = 62_500
    """Env steps of the descent (Hessel et al. 2018: 250,000 frames)."""


class Rainbow(C51):
    """All parts are C51's and DQN's; only the settings differ."""

    Config = RainbowConfig
