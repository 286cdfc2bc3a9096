"""Deaths: how often a process of a cluster run has died without having done its work, and when that ends the run."""

import time
from collections.abc import Callable

MOST = 3  # in a row
OVER_S = 300.0  # and without any work for so long
MAX_PAUSE_S = 30.0  # before another process starts


def pause_after(deaths: int) -> float:
    """Return the seconds to wait before another process starts, after so many deaths in a row."""
    return min(2.0 ** (deaths - MOST), MAX_PAUSE_S) if deaths >= MOST else 0.0


class Deaths:
    """The deaths of one role's processes since one of them did its work last.

    Several in a row may be a node's or a machine's fault, and pass. A process that cannot work dies for good.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self.worked()

    def worked(self) -> None:
        """Forget the deaths."""
        self.in_a_row, self._since = 0, self._clock()

    def died(self) -> float | None:
        """Count a death; returns the seconds to wait before another process starts, or None if the run must end."""
        self.in_a_row += 1
        if self.in_a_row > MOST and self._clock() - self._since > OVER_S:
            return None
        return pause_after(self.in_a_row)
