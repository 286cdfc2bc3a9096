"""See `accel_rl.papers.parr`."""

from accel_rl.papers.parr import *  # noqa: F403
