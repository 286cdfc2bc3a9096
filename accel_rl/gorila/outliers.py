"""Losses that are far above the usual, whose gradients a learner discards."""

import math
from typing import Any

WARM_UP = 100
"""Number of losses before any is an outlier."""
SHARE = 0.001
"""Weight of a loss in the running mean and deviation."""


class OutlierGuard:
    """Tells outliers by a running mean and standard deviation of |loss| (Nair et al. 2015, section 4.2).

        |loss| > mean + max(k deviation, usual)

    The paper keeps both over all data that a learner sees, and gives neither k ("several") nor the window. Here the
    first losses are averaged evenly; once there are 1 / SHARE of them, older ones are forgotten exponentially. Outliers
    enter too, so that the guard gets used to a lasting change.

    `usual` is ours: what the surprise of one reward adds to a loss. Without it the guard discards rewards where they
    are rare: in Pong with batches of 8, after 20,000 updates, 26 % of the batches with a won point, and 0.6 % of those
    with lost points alone.
    """

    def __init__(self, deviations: float, usual: float = 0.0):
        """deviations: k. 0: no loss is an outlier."""
        self.deviations, self.usual = deviations, usual
        self._seen, self._mean, self._variance = 0, 0.0, 0.0

    @property
    def bound(self) -> float:
        """The |loss| above which the next loss is an outlier."""
        return self._mean + max(self.deviations * math.sqrt(self._variance), self.usual)

    def is_outlier(self, loss: float) -> bool:
        """Note a loss, which must be finite; returns whether it is above the bound of the losses before it."""
        x = abs(loss)
        found = self.deviations > 0 and self._seen >= WARM_UP and x > self.bound
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
