"""An Atari 2600 emulator of our own, exact against ale-py 0.12.1 where benchmarks/results/emulator_trace.md says so.

Built where a C++ compiler is found.
"""

from accel_rl.emulator.atari import AtariEmulator
from accel_rl.emulator.games import games

__all__ = ["AtariEmulator", "games"]
