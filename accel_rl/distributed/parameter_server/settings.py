"""Settings of learners on a parameter server."""

import math
from dataclasses import dataclass

from accel_rl.system.counts import Count
from accel_rl.system.errors import ConfigError

MAX_IN_FLIGHT = 2


@dataclass(frozen=True)
class ParameterServerConfig:
    """A sharded parameter server (Nair et al. 2015, section 4)."""

    shards: Count = 1
    """Number of shards that the parameters are divided among (Nair et al. 2015, section 5.1: 31)."""
    max_delay: Count = 100
    """Maximum age of a push, in other pushes to the shard; older ones are discarded (section 4.2, without a number).
    The default equals the paper's number of learners. 0: only gradients at the current parameters."""
    in_flight: Count = 1
    """Maximum number of pushes that may be unanswered when an update ends, 0 to 2. 0: each update waits for the shards'
    answers and pulls the new parameters. Otherwise answers and parameters are taken as they arrive."""
    outlier_deviations: float = 5.0
    """A learner discards a gradient whose |loss| is above the running mean by this many running standard deviations
    (section 4.2: several). 0: never."""
    push_updates: Count = 1
    """--update async: number of updates by the ranks of a machine after which the machine pushes all that they have
    made. It also waits for the answers to its last push."""
    timeout_s: float = 60.0
    """Seconds after which a shard that does not answer ends the run."""

    def check(self) -> None:
        """Raise ConfigError, one line, for an impossible value."""
        for name, holds, allowed in (
            ("shards", self.shards >= 1, "at least 1"),
            ("max_delay", self.max_delay >= 0, "0 or more"),
            ("in_flight", 0 <= self.in_flight <= MAX_IN_FLIGHT, f"0 to {MAX_IN_FLIGHT}"),
            # a learner's own unanswered pushes make its gradients older
            ("in_flight", self.in_flight <= self.max_delay, f"at most --gorila.max-delay {self.max_delay}"),
            ("outlier_deviations", 0 <= self.outlier_deviations < math.inf, "0 or more"),
            ("push_updates", self.push_updates >= 1, "at least 1"),
            ("timeout_s", self.timeout_s > 0, "above 0"),
        ):
            if not holds:
                raise ConfigError(f"--gorila.{name.replace('_', '-')} {getattr(self, name)}: must be {allowed}")
