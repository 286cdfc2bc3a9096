"""Settings of learners on a parameter server."""

import math
from dataclasses import dataclass

from accel_rl.system.counts import Count, OptionalCount
from accel_rl.system.errors import ConfigError

MAX_IN_FLIGHT = 2
SLACK = 100
"""Least number of pushes that a gradient may be older than those of equally fast learners are."""


@dataclass(frozen=True)
class ParameterServerConfig:
    """A sharded parameter server (Nair et al. 2015, section 4)."""

    shards: Count = 1
    """Number of shards that the parameters are divided among (Nair et al. 2015, section 5.1: 31)."""
    max_delay: OptionalCount = None
    """Maximum age of a push, in other pushes to the shard; older ones are discarded (section 4.2, without a number).
    Default: (1 + in-flight) x learners, the age of a gradient among equally fast learners, and as many more as
    learners, at least 100. 0: only gradients at the current parameters."""
    in_flight: Count = 1
    """Maximum number of pushes that may be unanswered when an update ends, 0 to 2. 0: each update waits for the shards'
    answers and pulls the new parameters. Otherwise answers and parameters are taken as they arrive."""
    outlier_deviations: float = 0.0
    """A learner discards a gradient whose |loss| is above the running mean by this many running standard deviations
    (section 4.2: several), and by more than one clipped reward can add to it. It is a rule for losses of Q-learning:
    with --cluster gorila 5 for dqn, c51 and rainbow. 0: never."""
    push_updates: Count = 1
    """--update async: number of updates by the ranks of a machine after which the machine pushes all that they have
    made. It also waits for the answers to its last push."""
    timeout_s: float = 60.0
    """Seconds after which a shard that does not answer ends the run."""

    @property
    def pushing(self) -> int:
        """Number of learners that push."""
        return 1

    @property
    def delay_limit(self) -> int:
        """max_delay, resolved."""
        n = self.pushing
        return (1 + self.in_flight) * n + max(SLACK, n) if self.max_delay is None else self.max_delay

    def check(self) -> None:
        """Raise ConfigError, one line, for an impossible value."""
        for name, holds, allowed in (
            ("shards", self.shards >= 1, "at least 1"),
            ("max_delay", self.delay_limit >= 0, "0 or more"),
            ("in_flight", 0 <= self.in_flight <= MAX_IN_FLIGHT, f"0 to {MAX_IN_FLIGHT}"),
            # a learner's own unanswered pushes make its gradients older
            ("in_flight", self.in_flight <= self.delay_limit, f"at most --gorila.max-delay {self.max_delay}"),
            ("outlier_deviations", 0 <= self.outlier_deviations < math.inf, "0 or more"),
            ("push_updates", self.push_updates >= 1, "at least 1"),
            ("timeout_s", self.timeout_s > 0, "above 0"),
        ):
            if not holds:
                raise ConfigError(f"--gorila.{name.replace('_', '-')} {getattr(self, name)}: must be {allowed}")
