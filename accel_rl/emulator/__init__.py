"""For the games in benchmarks/results/emulator_trace.md, this Atari 2600 emulator computes exactly what ale-py 0.12.1
computes. Installing accel_rl compiles the emulator if there is a C++ compiler."""

from typing import TYPE_CHECKING, Any

from accel_rl.emulator.atari import AtariEmulator
from accel_rl.emulator.games import games

if TYPE_CHECKING:
    from accel_rl.emulator.vector_env import VectorEnv

__all__ = ["AtariEmulator", "VectorEnv", "games"]


def __getattr__(name: str) -> Any:
    if name == "VectorEnv":  # Worker processes do not need Gymnasium.
        from accel_rl.emulator.vector_env import VectorEnv

        return VectorEnv
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
