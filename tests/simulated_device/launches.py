"""Counts the host's launches on simulated devices: operations outside of captures, copies, and replays of graphs."""

from tests.simulated_device.counts import Counts

_counts = Counts()
count, launching = _counts.count, _counts.counting
