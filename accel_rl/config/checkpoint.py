"""Settings of checkpoints."""

from dataclasses import dataclass

from accel_rl.system.counts import Count, OptionalCount
from accel_rl.system.errors import ConfigError


@dataclass(frozen=True)
class CheckpointConfig:
    """Checkpoints. A resumed run is bitwise identical to an uninterrupted one. Files are written atomically and
    verified."""

    interval: OptionalCount = None
    """Env steps between checkpoints. Default: a twentieth of the run, 5,000 to 100,000. 0: only at the end."""
    keep: Count = 3
    """Number of checkpoints to keep; older ones are deleted."""

    def check(self) -> None:
        if self.interval is not None and self.interval < 0:
            raise ConfigError(f"--checkpoint.interval {self.interval}: must be 0 or more")
        if self.keep < 1:
            raise ConfigError(f"--checkpoint.keep {self.keep}: must be at least 1")
