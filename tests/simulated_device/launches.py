"""Counts what the host launches on simulated devices: operations outside captures, copies, and replays of graphs."""

from tests.simulated_device.counts import Counts

_counts = Counts()
count, launching = _counts.count, _counts.counting
