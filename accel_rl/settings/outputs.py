"""Settings of evaluations, checkpoints and rows of metrics."""

from dataclasses import dataclass
from typing import Literal

from accel_rl.text.bounds import NonNegativeCount, Positive, PositiveCount
from accel_rl.text.errors import ConfigError


@dataclass(frozen=True)
class EvaluationConfig:
    """Evaluations run in separate environments, in which losing a life does not end the episode. Every episode that
    begins is played to its end and counted, so that the mean score is not biased towards short episodes."""

    interval: NonNegativeCount = 1_000_000
    """Env steps of training between evaluations (section 5.3: 1 M). The end of a run is always evaluated. With 0, a run
    has no evaluations."""
    steps: NonNegativeCount = 125_000
    """Env steps of one evaluation, after which no new episode begins (section 5.3: 125,000). An evaluation lasts at
    most an eighth of --evaluation.interval, or of the whole run if the run is shorter than the interval."""
    episodes: NonNegativeCount = 0
    """Number of episodes of one evaluation, of each game, instead of --evaluation.steps. With 0, the length is
    --evaluation.steps."""
    max_episode_steps: PositiveCount = 27_000
    """Time limit of an evaluation episode in env steps (section 5.3: 27,000), in every environment. A shorter time
    limit of the environment takes precedence. A shorter time limit of the protocol takes precedence unless
    --evaluation.starts is saved."""
    parallel: PositiveCount = 16
    """Number of environments in which episodes are played in parallel. If the agent plays several games, the
    environments are divided equally among the games."""
    starts: Literal["noop", "saved"] = "noop"
    """Start of Atari evaluation episodes (Nair et al. 2015, section 5.2). With `noop`, an episode begins after a reset
    and at most --env.noop-max no-op frames. With `saved`, one episode begins at each start point of
    --evaluation.starts-file, and --evaluation.episodes and steps have no effect. The frames before a start point count
    toward --evaluation.max-episode-steps, but their rewards do not count toward the score."""
    starts_file: str = ""
    """File of start points, created by `accel-rl starts`. The start points of Nair et al. 2015 are not public."""
    greedy: bool = False
    """In evaluations, the agent acts greedily instead of sampling from the policy."""

    def size(self, env_steps: int) -> int:
        """Env steps of each evaluation, including the last, in a run with `env_steps` env steps."""
        return min(self.steps, max(1, min(self.interval or env_steps, env_steps) // 8))

    def check(self) -> None:
        if (self.starts == "saved") != bool(self.starts_file):
            got = f"--evaluation.starts {self.starts} with --evaluation.starts-file {self.starts_file!r}"
            raise ConfigError(f"{got}: saved needs a file (made by accel-rl starts GAME), noop has none")


@dataclass(frozen=True)
class CheckpointConfig:
    """Checkpoints are written atomically and verified, and a resumed run is bitwise identical to an uninterrupted
    run."""

    minutes: Positive = 5.0
    """Minutes between checkpoints. The end of a run is always saved."""
    interval: NonNegativeCount | None = None
    """Env steps between checkpoints, instead of --checkpoint.minutes. With 0, the only checkpoint is at the end of the
    run."""
    keep: PositiveCount = 3
    """Number of checkpoints to keep. All older checkpoints are deleted."""

    def is_due(self, seconds: float) -> bool:
        """Whether a checkpoint is due `seconds` after the last one. With --checkpoint.interval, which counts env steps
        instead, return False."""
        return self.interval is None and seconds >= 60 * self.minutes


@dataclass(frozen=True)
class LogConfig:
    """Settings of metrics and logging."""

    interval: PositiveCount | None = None
    """Env steps between rows of metrics.csv. The default interval is a hundredth of the run's length, but at least
    1,000 and at most 50,000 env steps."""
    window: PositiveCount = 100
    """Number of recent episodes, of all ranks, over which the online score averages (section 5.3: 100). With several
    games, the average is over this number of episodes times the number of games."""
    norms: bool = False
    """Also report the L2 norms of each layer's parameters, gradients and steps (Stooke & Abbeel, appendix C)."""
    tensorboard: bool = False
    """Write TensorBoard events into the run folder. TensorBoard needs the extra `tensorboard`."""
