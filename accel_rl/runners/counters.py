"""Counters of a run's progress."""

from dataclasses import dataclass


@dataclass(slots=True)
class Counters:
    """Env steps of the run, and those at which it was last evaluated, reported and saved."""

    env_steps: int = 0
    evaluated_at: int = 0
    logged_at: int = 0
    saved_at: int = 0

    def due(self, last: int, interval: int, done: bool) -> bool:
        """Whether something is due that was last done at `last`, every `interval` env steps (0: only at the end).

        done: the run has all its env steps.
        """
        if self.env_steps == last:
            return False
        return done or (interval > 0 and self.env_steps // interval > last // interval)
