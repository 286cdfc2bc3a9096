"""See `accel_rl.papers.daley`."""

from accel_rl.papers.daley import *  # noqa: F403
