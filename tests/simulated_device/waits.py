"""Counts all operations by which the host waits for a simulated GPU."""

from collections import Counter

from tests.simulated_device.counts import Counts

waits: Counter[str] = Counter()
"""Number of waits by "file:line what", such as "accel_rl/x.py:12 item", since the last `reset`."""

_counts = Counts(waits)
count, counting = _counts.count, _counts.counting
