"""Deep reinforcement learning on Atari at the speed of the hardware.

This module imports nothing heavy: worker processes import the package and must start in a fraction of a second.
"""

from accel_rl.version import __version__

__all__ = ["__version__"]
