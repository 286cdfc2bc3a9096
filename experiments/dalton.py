"""See `accel_rl.papers.dalton`."""

from accel_rl.papers.dalton import *  # noqa: F403
