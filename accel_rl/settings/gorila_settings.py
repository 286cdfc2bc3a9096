"""Settings of a run on a cluster with a parameter server (Nair et al. 2015)."""

from dataclasses import dataclass
from typing import Literal

from accel_rl.text.bounds import NonNegative, NonNegativeCount, PositiveCount
from accel_rl.text.errors import ConfigError

MAX_IN_FLIGHT = 2
SLACK = 100
"""The default max_delay exceeds the age of gradients of equally fast learners by at least SLACK pushes."""


@dataclass(frozen=True)
class ParameterServerConfig:
    """A sharded parameter server (Nair et al. 2015, section 4)."""

    shards: PositiveCount = 1
    """Number of shards among which the parameters are divided (Nair et al. 2015, section 5.1: 31)."""
    max_delay: NonNegativeCount | None = None
    """Maximum age of a push, counted in other pushes to the shard. A shard discards older pushes (section 4.2 states no
    number). The default max_delay is (1 + in-flight) x learners, which is the age of a gradient if all learners are
    equally fast, plus max(learners, 100). With 0, a shard applies only gradients that were computed from its current
    parameters."""
    in_flight: NonNegativeCount = 1
    """Maximum number of unanswered pushes at the end of an update, 0 to 2. With 0, each update waits for the shards'
    answers and pulls the new parameters. With 1 or 2, answers and parameters are applied when they arrive."""
    outlier_deviations: NonNegative = 0.0
    """Number of running standard deviations by which a |loss| of Q-learning must exceed the running mean to be an
    outlier. Gradients of outliers are discarded (section 4.2: several). An outlier must also exceed the mean by more
    than the loss that one clipped reward can cause. With --cluster gorila the default is 5 for algorithms with a
    replay, except r2d2. With 0, no gradient is discarded as an outlier."""
    timeout_s: float = 180.0
    """Seconds after which a shard that does not answer ends the run. A shard is replaced after a third of this time.
    Ray detects after about 65 seconds that a machine has lost its network connection."""

    @property
    def pushing(self) -> int:
        return 1

    @property
    def delay_limit(self) -> int:
        n = self.pushing
        return (1 + self.in_flight) * n + max(SLACK, n) if self.max_delay is None else self.max_delay

    def check(self) -> None:
        """Raise ConfigError, with a message of one line, for an impossible value."""
        for name, holds, allowed in (
            ("in_flight", self.in_flight <= MAX_IN_FLIGHT, f"0 to {MAX_IN_FLIGHT}"),
            # Each unanswered push of a learner increases the age of the learner's next gradient.
            ("in_flight", self.in_flight <= self.delay_limit, f"at most --gorila.max-delay {self.max_delay}"),
        ):
            if not holds:
                raise ConfigError(f"--gorila.{name.replace('_', '-')} {getattr(self, name)}: must be {allowed}")


@dataclass(frozen=True)
class GorilaConfig(ParameterServerConfig):
    """With --cluster gorila, each bundle has an actor, a replay and a learner, and the parameters are divided into
    shards (Nair et al. 2015, section 4). --envs, --replay.size and --replay.start apply to each bundle."""

    bundles: NonNegativeCount = 2
    """Number of bundles (Nair et al. 2015, section 5.1: 100). Each bundle, a Ray actor, samples and learns."""
    actors: NonNegativeCount = 0
    """Number of processes that only sample. Processes that only sample require --gorila.replay global."""
    learners: NonNegativeCount = 0
    """Number of processes that only learn. Processes that only learn require --gorila.replay global."""
    replay: Literal["local", "global"] = "local"
    """Location of the replay. With `local`, each bundle learns from its own env steps (Nair et al. 2015, section 5.1).
    With `global`, one replay in a separate process stores all env steps, and all learners draw from it (section 4)."""
    updates: PositiveCount | None = None
    """End the run after this many updates of the parameters, instead of after --env-steps of all bundles together."""
    min_bundles: PositiveCount = 1
    """Minimum number of bundles. The run ends if fewer bundles are running for --gorila.timeout-s seconds."""
    snapshot_updates: PositiveCount = 1_000
    """Number of updates of the parameters between two snapshots of the shards. A lost shard continues from its last
    snapshot."""
    bundle_cpus: float = 0.0
    """Number of cores that the cluster reserves for each bundle. The number may be a fraction below 1. With 0, all
    cores are divided among the bundles."""
    bundle_gpus: float = 0.0
    """Number of GPUs that the cluster reserves for each bundle. The number may be a fraction below 1. With 0, all GPUs
    are divided among the bundles."""

    @property
    def pushing(self) -> int:
        return max(1, self.bundles + self.learners)

    @property
    def members(self) -> int:
        return self.bundles + self.actors + self.learners

    def check(self) -> None:
        super().check()
        for name in ("bundle_cpus", "bundle_gpus"):
            value = getattr(self, name)
            if value < 0 or (value > 1 and value != int(value)):
                flag = name.replace("_", "-")
                raise ConfigError(f"--gorila.{flag} {value:g}: must be 0 to 1, or a whole number")
        if (self.actors or self.learners) and self.replay == "local":
            name = "actors" if self.actors else "learners"
            raise ConfigError(f"--gorila.{name} {getattr(self, name)}: needs --gorila.replay global")
        if not self.bundles + self.actors:
            raise ConfigError("--gorila.bundles 0: nothing samples; give at least 1 bundle, or --gorila.actors")
        if not self.bundles + self.learners:
            raise ConfigError("--gorila.bundles 0: nothing learns; give at least 1 bundle, or --gorila.learners")
        if self.min_bundles > self.members:
            raise ConfigError(f"--gorila.min-bundles {self.min_bundles}: must be at most {self.members}, their number")
