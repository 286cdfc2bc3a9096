"""An Atari 2600 emulator of our own, meant to be exact against ale-py 0.12.1 (not there yet).

tests/emulator/test_trace.py names the games that differ. Built where a C++ compiler is found.
"""

from accel_rl.emulator.atari import AtariEmulator
from accel_rl.emulator.games import games

__all__ = ["AtariEmulator", "games"]
