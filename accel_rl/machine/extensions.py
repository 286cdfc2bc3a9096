"""Explains why a compiled extension of accel_rl cannot be imported, and how to fix the installation."""

import sys
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path

PACKAGE = Path(__file__).parents[1]
COMPILER = "install a C++17 compiler (g++ or clang++)"


def remedy(name: str, error: ImportError) -> str:
    """Why an extension such as "emulator/_core" cannot be imported, and how to build it. `error` is the error that the
    import raised."""
    if _compiled(PACKAGE, name):
        return f"{PACKAGE / name} cannot be loaded ({error}); reinstall accel_rl with pip"
    is_source = (PACKAGE.parent / "setup.py").is_file()
    if is_source and (installed := _installed_with(name)):
        return (
            f"this accel_rl is the source tree {PACKAGE}, in which nothing is compiled, and the one installed in "
            f"{installed} is; run accel-rl instead of python -m, or start from another folder, or compile this one: "
            f"python -m pip install -e {PACKAGE.parent}"
        )
    if is_source:
        return f"{COMPILER}, and compile this source tree: python -m pip install -e {PACKAGE.parent}"
    return f"{COMPILER} and reinstall accel_rl with pip"


def _compiled(package: Path, name: str) -> bool:
    return any((package / f"{name}{suffix}").is_file() for suffix in EXTENSION_SUFFIXES)


def _installed_with(name: str) -> Path | None:
    """The folder of another importable accel_rl that contains the compiled extension."""
    for folder in map(Path, sys.path):
        package = (folder / "accel_rl").absolute()
        if package != PACKAGE and _compiled(package, name):
            return package
    return None
