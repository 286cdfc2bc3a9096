"""See `accel_rl.papers.stooke`."""

from accel_rl.papers.stooke import *  # noqa: F403
