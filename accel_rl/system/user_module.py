"""Modules of a user's, in which algorithms, environments and functions are named `module:attribute`."""

import importlib
import os
import sys
from types import ModuleType


def import_user_module(name: str) -> ModuleType:
    """Import a module; the current folder is searched first, as by `python -m`. ImportError.

    name: name of a module, or path of its file (`grids/sizes.py`), whose folder is then searched first.

    The search path is changed only here. Otherwise a file random.py in the current folder would be imported in place of
    Python's own module.
    """
    try:
        folder = os.getcwd()
    except FileNotFoundError:  # The file has been removed.
        folder = ""
    if name.endswith(".py"):
        folder, name = os.path.split(os.path.abspath(name))
        name = name.removesuffix(".py")
    if folder and folder not in sys.path:
        sys.path.insert(0, folder)
    return importlib.import_module(name)
