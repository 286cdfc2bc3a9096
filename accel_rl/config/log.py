"""Settings of logging."""

from dataclasses import dataclass

from accel_rl.system.counts import Count, OptionalCount
from accel_rl.system.errors import ConfigError


@dataclass(frozen=True)
class LogConfig:
    """Metrics and logging."""

    interval: OptionalCount = None
    """Env steps between rows of metrics.csv. Default: a hundredth of the run, 1,000 to 50,000."""
    window: Count = 100
    """Number of recent episodes, of all ranks, that the online score averages over (section 5.3: 100)."""
    norms: bool = False
    """Also report the L2 norms of each layer's parameters, gradients and steps (Stooke & Abbeel, appendix C)."""
    tensorboard: bool = False
    """Also write TensorBoard events into the run folder (needs the extra: tensorboard)."""

    def check(self) -> None:
        if self.interval is not None and self.interval < 1:
            raise ConfigError(f"--log.interval {self.interval}: must be at least 1")
        if self.window < 1:
            raise ConfigError(f"--log.window {self.window}: must be at least 1")
