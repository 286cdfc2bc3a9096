"""Losses that are far above the usual, whose gradients a learner discards."""

import math
from typing import Any

WARM_UP = 100
"""Number of losses before any is an outlier."""
SHARE = 0.01
"""Weight of a loss in the running mean and deviation."""


class OutlierGuard:
    """Tells outliers by a running mean and standard deviation of |loss| (Nair et al. 2015, section 4.2).

        |loss| > mean + k deviation

    The paper keeps both over all data that a learner sees, and gives neither k ("several") nor the window. Here the
    first losses are averaged evenly; once there are 1 / SHARE of them, older ones are forgotten exponentially. Outliers
    enter too, so that the guard gets used to a lasting change.
    """

    def __init__(self, deviations: float):
        """deviations: k. 0: no loss is an outlier."""
        self.deviations = deviations
        self._seen, self._mean, self._variance = 0, 0.0, 0.0

    def is_outlier(self, loss: float) -> bool:
        """Note a loss, which must be finite; returns whether it is above the bound of the losses before it."""
        x = abs(loss)
        bound = self._mean + self.deviations * math.sqrt(self._variance)
        found = self.deviations > 0 and self._seen >= WARM_UP and x > bound
        self._seen += 1
        share = max(SHARE, 1 / self._seen)
        distance = x - self._mean
        self._mean += share * distance
        self._variance = (1 - share) * (self._variance + share * distance * distance)
        return found

    def state_dict(self) -> dict[str, Any]:
        return {"seen": self._seen, "mean": self._mean, "variance": self._variance}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self._seen, self._mean, self._variance = state["seen"], state["mean"], state["variance"]
