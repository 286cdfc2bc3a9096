"""Users name algorithms, environments and functions of their own modules as `module:attribute`."""

import importlib
import os
import sys
from types import ModuleType


def import_user_module(name: str) -> ModuleType:
    """Import a user's module, searching the current folder first as `python -m` does; raises ImportError.

    `name` is the name of a module, or the path of its file (`grids/sizes.py`), whose folder is then searched first.

    Only `import_user_module` adds the current folder to the search path. Otherwise a file random.py in the current
    folder would be imported in place of Python's own module.
    """
    try:
        folder = os.getcwd()
    except FileNotFoundError:
        folder = ""
    if name.endswith(".py"):
        folder, name = os.path.split(os.path.abspath(name))
        name = name.removesuffix(".py")
    if folder and folder not in sys.path:
        sys.path.insert(0, folder)
    return importlib.import_module(name)
