"""See `accel_rl.papers.gorila`."""

from accel_rl.papers.gorila import *  # noqa: F403
