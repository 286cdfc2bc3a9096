"""For the games in benchmarks/results/emulator_trace.md, this Atari 2600 emulator computes exactly what ale-py 0.12.1
computes. Installing accel_rl compiles the emulator if there is a C++ compiler."""

import importlib
from typing import TYPE_CHECKING, Any

from accel_rl.emulator.atari import AtariEmulator
from accel_rl.emulator.games import games

if TYPE_CHECKING:
    from accel_rl.emulator.device.device_vector_env import DeviceVectorEnv
    from accel_rl.emulator.vector_env import VectorEnv

__all__ = ["AtariEmulator", "DeviceVectorEnv", "VectorEnv", "games"]

# The modules in _MODULES are imported at first use, because worker processes need neither Gymnasium nor torch.
_MODULES = {"DeviceVectorEnv": "device.device_vector_env", "VectorEnv": "vector_env"}


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return getattr(importlib.import_module(f"accel_rl.emulator.{_MODULES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
