"""Settings of evaluations."""

from dataclasses import dataclass

from accel_rl.system.counts import Count
from accel_rl.system.errors import ConfigError


@dataclass(frozen=True)
class EvaluationConfig:
    """Evaluations on separate environments, in which losing a life does not end the episode. Every episode is played to
    its end and counted, so that short episodes are not favoured."""

    interval: Count = 1_000_000
    """Env steps of training between evaluations (section 5.3: 1 M). The end of a run is always evaluated. 0: never."""
    steps: Count = 125_000
    """Env steps of one evaluation, after which no new episode begins (section 5.3: 125,000). At most an eighth of the
    env steps trained since the last evaluation."""
    episodes: Count = 0
    """Number of episodes of one evaluation, instead of --evaluation.steps. 0: use --evaluation.steps."""
    max_episode_steps: Count = 27_000
    """Time limit of an evaluation episode in env steps (section 5.3: 27,000). A shorter limit of the protocol takes
    precedence."""
    parallel: Count = 16
    """Number of environments that are evaluated in parallel."""
    greedy: bool = False
    """Act greedily instead of sampling from the policy."""

    def check(self) -> None:
        for name in ("interval", "steps", "episodes"):
            if getattr(self, name) < 0:
                raise ConfigError(f"--evaluation.{name} {getattr(self, name)}: must be 0 or more")
        for name in ("max_episode_steps", "parallel"):
            if getattr(self, name) < 1:
                raise ConfigError(f"--evaluation.{name.replace('_', '-')} {getattr(self, name)}: must be at least 1")
