"""EpisodeSums: the points and steps of each environment since its episode began."""

import numpy as np


class EpisodeSums:
    """For `n` environments whose episodes are reset in the step that ends them."""

    def __init__(self, n: int) -> None:
        self._points, self._steps = np.zeros(n), np.zeros(n, np.int64)

    def reset(self) -> None:
        """All episodes begin."""
        self._points[:] = self._steps[:] = 0

    def add(self, points: np.ndarray) -> None:
        """Add the points [n] of a step."""
        self._points += points
        self._steps += 1

    def end(self, i: np.integer) -> dict[str, float | int]:
        """Return the points `r` and the length `l` of an environment's episode, and begin its next one."""
        sums = {"r": float(self._points[i]), "l": int(self._steps[i])}
        self._points[i] = self._steps[i] = 0
        return sums
