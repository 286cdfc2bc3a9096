"""Imports a user's module by its name. Parses settings that name a class with arguments, such as
StopAtScore(score=18)."""

import ast
import importlib
import importlib.util
import os
import sys
import traceback
from importlib.machinery import PathFinder
from types import ModuleType
from typing import Any

from accel_rl.text.errors import ConfigError


def import_user_module(name: str) -> ModuleType:
    """Import a user's module. The current folder is searched first, as by `python -m`. Raises ImportError.

    `name` is the name of a module, or the path of its file (`grids/sizes.py`), whose folder is then searched first.

    Only this function adds the current folder to the search path. If the current folder were always in the search path,
    a user's file random.py would replace Python's own module.
    """
    if not name or name.startswith("."):
        raise ModuleNotFoundError(f"{name!r} is no name of a module", name=name)
    try:
        folder = os.getcwd()
    except FileNotFoundError:
        folder = ""
    if name.endswith(".py"):
        folder, name = os.path.split(os.path.abspath(name))
        name = name.removesuffix(".py")
    if folder and folder not in sys.path:
        sys.path.insert(0, folder)
    package = name.partition(".")[0]
    if package not in sys.modules and os.path.isfile(os.path.join(folder, *name.split(".")) + ".py"):
        # Without this entry in sys.modules, Python would prefer a package of this name with __init__.py, such as the
        # clone's `experiments`.
        spec = PathFinder.find_spec(package, [folder])
        if spec and spec.loader is None:
            sys.modules[package] = importlib.util.module_from_spec(spec)
    return importlib.import_module(name)


def failure(e: BaseException) -> str:
    """The error of an import in one line, with the line in the user's file unless the error's message names it."""
    text = " ".join(str(e).split())
    if isinstance(e, ImportError):
        return text
    frame = traceback.extract_tb(e.__traceback__)[-1]
    place = "" if isinstance(e, SyntaxError) else f", {frame.filename}, line {frame.lineno}"
    return f"{type(e).__name__}: {text}{place}"


def parse_call(text: str, flag: str, form: str) -> tuple[str, dict[str, Any]]:
    """(name, arguments) of `name` or `name(argument=value, ...)`, whose values are Python literals. Raises a
    ConfigError that begins with `flag` and states the allowed form."""
    name, bracket, rest = text.partition("(")
    try:
        call = ast.parse(f"f({rest}" if bracket else "f()", mode="eval").body
        assert isinstance(call, ast.Call) and not call.args
        arguments = {str(k.arg): ast.literal_eval(k.value) for k in call.keywords if k.arg}
    except (SyntaxError, ValueError, AssertionError) as e:
        raise ConfigError(f"{flag} {text}: must be {form} or {form}(name=value, ...) with plain values") from e
    return name, arguments
