"""The argument of the emulator's GPU kernels, with the fields of StepArguments in kernels/envs.h."""

import ctypes
from ctypes import c_bool, c_double, c_uint8, c_uint32, c_uint64

POINTER = c_uint64  # a 64-bit address in a GPU's memory


class EnvArrays(ctypes.Structure):
    """Addresses of the arrays with the states of n environments."""

    _fields_ = [
        ("n", c_uint32),
        ("envs", POINTER),
        ("shots", POINTER),
        ("logs", POINTER),
        ("rows", POINTER),
        ("shown", POINTER),
        ("code", POINTER),
    ]


class GameTables(ctypes.Structure):
    _fields_ = [
        ("game", POINTER),
        ("rom", POINTER),
        ("code", POINTER),
        ("stages", POINTER),
        ("luminance", POINTER),
        ("rom_bytes", c_uint32),
        ("kind", c_uint8),
    ]


class Rules(ctypes.Structure):
    _fields_ = [
        ("frame_skip", c_uint32),
        ("max_steps", c_uint32),
        ("life_loss", c_bool),
        ("repeat_probability", c_double),
        ("observation", c_uint8),
        ("one_life", c_bool),
    ]


class Starts(ctypes.Structure):
    _fields_ = [
        ("envs", POINTER),
        ("frames", POINTER),
        ("continued", POINTER),
        ("rows", c_uint32),
        ("columns", c_uint32),
    ]


class StepOutputs(ctypes.Structure):
    _fields_ = [
        (name, POINTER)
        for name in ("frame", "final_frame", "age", "reward", "terminated", "truncated", "ended", "valid")
    ]


class StepArguments(ctypes.Structure):
    """The argument of every GPU kernel."""

    _fields_ = [
        ("envs", EnvArrays),
        ("tables", GameTables),
        ("rules", Rules),
        ("starts", Starts),
        ("action", POINTER),
        ("codes", POINTER),
        ("out", StepOutputs),
        ("oldest", c_uint32),
    ]
