"""Schedules hold the current values of all settings that change over a run."""

from collections.abc import Mapping

from accel_rl.distributed.communicator import CountedSteps
from accel_rl.optim.optimizer import Rate


class Schedules:
    """The current values are attributes: `now.learning_rate`, `now.clip` and every other name of `Algorithm.schedules`.

    Three attributes describe the run. `progress` is the fraction of the run that was done when the cycle began.
    `env_steps` counts the env steps of all ranks, including the newest rollout. `counted` is the newest rollout's own
    env steps.
    """

    def __init__(self) -> None:
        self.progress = 0.0
        self.env_steps = 0
        self.counted = CountedSteps(0, 0)

    def __getattr__(self, name: str) -> Rate:
        names = ", ".join(vars(self))
        raise AttributeError(f"no schedule has the name {name!r}: schedules() returns {names}")

    def count(self, steps: CountedSteps) -> None:
        """Add the env steps of a rollout."""
        self.env_steps += steps.of_run
        self.counted = steps

    def set(self, values: Mapping[str, float]) -> None:
        """Set the values by name."""
        for name, value in values.items():
            setattr(self, name, value)
