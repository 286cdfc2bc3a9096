"""Options of a search."""

from dataclasses import dataclass, fields, replace
from typing import Any, Literal

from accel_rl.sweeps.placing import Placing, placing
from accel_rl.sweeps.study import Pruner, Sampler
from accel_rl.system.counts import Count, OptionalCount
from accel_rl.system.errors import ConfigError

TRIALS = 20
CHANGEABLE = ("out", "resume", "trials", "retries")


@dataclass(frozen=True)
class SearchOptions(Placing):
    out: str = ""
    """Folder of the search; it is created. Default: runs/NAME-TIME."""
    trials: OptionalCount = None
    """Number of trials in all. Default: 20."""
    objective: Literal["evaluation", "online"] = "evaluation"
    """The score to maximize. evaluation: of a run's last evaluation. online: of its last 100 training episodes."""
    pruner: Pruner = "median"
    """median: end runs whose online score is below the median. none: every run goes on to its end."""
    sampler: Sampler = "tpe"
    """tpe: from the scores of earlier trials (tree-structured Parzen estimator). random: independently of them."""
    sampler_seed: Count = 0
    """Seed of the sampler."""
    override: tuple[str, ...] = ()
    """Settings of every run, as on the command line of accel-rl train: env-steps=20000 sampler.envs=8."""
    scale: float = 1.0
    """Scale of each run's length, intervals, replay and epsilon schedule."""
    retries: Count = 2
    """Number of times that a failed run is restarted from its checkpoint."""
    resume: str = ""
    """Resume the search in this folder."""

    @property
    def number(self) -> int:
        """Number of trials."""
        return TRIALS if self.trials is None else self.trials

    def check(self) -> None:
        if self.number < 1:
            raise ConfigError(f"--trials {self.trials}: must be at least 1")

    def stored(self) -> dict[str, Any]:
        """Return what search.json holds for --resume."""
        values = {f.name: getattr(self, f.name) for f in fields(self) if f.name not in (*placing(self), *CHANGEABLE)}
        return {**values, "override": list(self.override), "trials": self.number}

    def resumed(self, stored: dict[str, Any], placed: dict[str, Any]) -> "SearchOptions":
        """Return the options of a search that was begun with others. ConfigError for one that cannot change."""
        default = SearchOptions()
        for name in stored:
            if name not in CHANGEABLE and getattr(self, name) != getattr(default, name):
                raise ConfigError(f"--resume continues a search as it was begun; leave out --{name.replace('_', '-')}")
        kept = {k: v for k, v in placed.items() if getattr(self, k) == getattr(default, k)}
        trials = stored["trials"] if self.trials is None else self.trials
        return replace(self, **kept, **{**stored, "override": tuple(stored["override"]), "trials": trials})
