"""This module has the settings of a second learner."""

from dataclasses import dataclass

from accel_rl.algos.algorithm import AlgorithmConfig
from accel_rl.algos.replay_algorithm import ReplayAlgorithmConfig
from accel_rl.system.counts import Count
from accel_rl.system.errors import ConfigError


@dataclass(frozen=True)
class SecondaryConfig:
    """`SecondaryConfig` has the settings of a second learner, for Q-learning. A second learner never acts. It starts
    with the first learner's parameters, and learns from the same replay at the same training intensity (Stooke &
    Abbeel, section 5.4.2)."""

    batch: Count = 0
    """Batch size of the second learner, in transitions. 0 means that the run has no second learner."""
    rate: float = 0.0
    """Learning rate of the second learner. 0 means the first learner's rate."""

    def check(self, algo: AlgorithmConfig) -> None:
        if self.batch < 0:
            raise ConfigError(f"--secondary.batch {self.batch}: must be 0 or more")
        if not 0 <= self.rate < float("inf"):
            raise ConfigError(f"--secondary.rate {self.rate}: must be 0 or more")
        if self.batch and not isinstance(algo, ReplayAlgorithmConfig):
            raise ConfigError(f"--secondary.batch {self.batch}: only dqn, c51 and rainbow have a replay to share")
