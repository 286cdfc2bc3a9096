"""Settings of checkpoints."""

from dataclasses import dataclass

from accel_rl.system.counts import Count, OptionalCount
from accel_rl.system.errors import ConfigError


@dataclass(frozen=True)
class CheckpointConfig:
    """Checkpoints hold everything that a run needs to go on bit for bit. They are written atomically and verified."""

    interval: OptionalCount = None
    """Env steps between checkpoints. Default: a twentieth of the run, 5,000 to 100,000. 0: only at the end."""
    keep: Count = 3
    """Number of the newest checkpoints that are kept."""

    def check(self) -> None:
        if self.interval is not None and self.interval < 0:
            raise ConfigError(f"--checkpoint.interval {self.interval}: must be 0 or more")
        if self.keep < 1:
            raise ConfigError(f"--checkpoint.keep {self.keep}: must be at least 1")
