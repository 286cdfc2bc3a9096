"""Settings of evaluations."""

from dataclasses import dataclass

from accel_rl.system.counts import Count
from accel_rl.system.errors import ConfigError


@dataclass(frozen=True)
class EvaluationConfig:
    """Scores on separate environments, without life-loss ends. Every episode that is begun is finished and counted, so
    that short episodes are not favoured."""

    interval: Count = 1_000_000
    """Env steps of training between evaluations (section 5.3: 1 M); a run's end is always evaluated. 0: never."""
    steps: Count = 125_000
    """Env steps of one evaluation, after which no episode is begun (section 5.3: 125,000); at most an eighth of the env
    steps trained since the last one."""
    episodes: Count = 0
    """Number of episodes to play, instead of --evaluation.steps; 0: by steps."""
    max_episode_steps: Count = 27_000
    """Time limit of an evaluation episode in env steps (section 5.3: 27,000), if the protocol's is not shorter."""
    parallel: Count = 16
    """Number of environments."""
    greedy: bool = False
    """Act greedily instead of sampling from the policy."""

    def check(self) -> None:
        for name in ("interval", "steps", "episodes"):
            if getattr(self, name) < 0:
                raise ConfigError(f"--evaluation.{name} {getattr(self, name)}: must be 0 or more")
        for name in ("max_episode_steps", "parallel"):
            if getattr(self, name) < 1:
                raise ConfigError(f"--evaluation.{name.replace('_', '-')} {getattr(self, name)}: must be at least 1")
