"""Finds the source line, in accel_rl or in a test, that called an operation of torch."""

import sys
import sysconfig
from pathlib import Path
from types import CodeType, FrameType

import torch

SourceLine = tuple[CodeType, int]
"""A code object and a line number. Source lines are formatted as text only for a message."""

_ROOT = str(Path(__file__).parents[2]) + "/"
_SITE = (sysconfig.get_path("purelib") + "/", sysconfig.get_path("platlib") + "/")
_STDLIB = sysconfig.get_path("stdlib") + "/"
_SKIPPED = (str(Path(torch.__file__).parent) + "/", str(Path(__file__).parent) + "/", "<frozen", "<__array")
_skipped: dict[CodeType, bool] = {}


def _is_skipped(code: CodeType) -> bool:
    name = code.co_filename
    skip = name.startswith(_SKIPPED) or (name.startswith(_STDLIB) and not name.startswith(_SITE))
    _skipped[code] = skip
    return skip


def here() -> SourceLine | None:
    """Return the innermost source line on the call stack outside torch, the standard library and the simulated
    device."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        code = frame.f_code
        skip = _skipped.get(code)
        if skip is None:
            skip = _is_skipped(code)
        if not skip:
            return code, frame.f_lineno
        frame = frame.f_back
    return None


def text(line: SourceLine | None) -> str:
    """Return "accel_rl/x.py:12"."""
    if line is None:
        return "?"
    name = line[0].co_filename.removeprefix(_ROOT)
    for folder in ("/accel_rl/", "/tests/"):
        if name.startswith("/") and folder in name:
            name = name[name.rindex(folder) + 1 :]
    return f"{name}:{line[1]}"
