"""The keyword types that settings_stub.py generates for the Python API equal those of the settings' classes."""

import ast
import importlib.util
import types
import typing
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

import pytest

from accel_rl.api.options import ResumeOptions
from accel_rl.settings.changeable import CHANGEABLE
from accel_rl.settings.registry import ALGORITHMS
from accel_rl.settings.train import default_config
from accel_rl.settings.trust import CODE
from accel_rl.settings.types import settings_in

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def tool() -> Any:
    """The module settings_stub.py, which generates types and is not a part of the package."""
    spec = importlib.util.spec_from_file_location("settings_stub", ROOT / "settings_stub.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def written(tool: Any, name: str) -> dict[str, str]:
    """Return {keyword: type} of a class in the generated source."""
    (body,) = (n.body for n in ast.parse(tool.stub()).body if isinstance(n, ast.ClassDef) and n.name == name)
    return {field.target.id: ast.unparse(field.annotation).replace("'", '"') for field in body}


def text(hint: Any) -> str:
    """Return the source text of a type. int becomes float, so that type checkers allow 1e6."""
    origin, args = get_origin(hint), get_args(hint)
    if origin is Literal:
        return f"Literal[{', '.join(repr(a) for a in args)}]".replace("'", '"')
    if origin is tuple:
        return f"Sequence[{text(args[0])}]"
    if origin in (typing.Union, types.UnionType):
        names = dict.fromkeys(map(text, args))
        return "str" if "str" in names and "None" not in names else " | ".join(names)
    return {int: "float", float: "float", bool: "bool", str: "str", type(None): "None"}[hint]


def wanted() -> dict[str, str]:
    """Return {keyword of accel_rl.train: type}, computed from the settings' classes."""
    result: dict[str, dict[str, None]] = {}
    for algorithm in ALGORITHMS:
        settings = list(settings_in(default_config(algorithm)))
        names = [s.name.rpartition(".")[2] for s in settings]
        for s, short in zip(settings, names, strict=True):
            for keyword in {s.name.replace(".", "__"), short if names.count(short) == 1 else s.name.replace(".", "__")}:
                is_class = s.name in CODE and s.name not in ("algorithm", "env.id", "callback", "sink")
                kind = "str | Sequence[float]" if s.name == "distributed.gpus" else text(s.hint) + " | type" * is_class
                result.setdefault(keyword, {})[kind] = None
    parameters = ("algorithm", "run_dir", "init")  # parameters that `train` declares in its own signature
    return {keyword: " | ".join(kinds) for keyword, kinds in result.items() if keyword not in parameters}


def test_the_keywords_of_a_training_are_the_settings_of_all_algorithms(tool):
    assert written(tool, "TrainSettings") == wanted()


def test_the_keywords_of_a_resume_are_its_options_and_what_may_change(tool):
    train = wanted()
    names = [k for name in CHANGEABLE for k in (name.replace(".", "__"), name.rpartition(".")[2]) if k in train]
    options = {s.name.rpartition(".")[2]: text(s.hint) for s in settings_in(ResumeOptions())}
    del options["env_steps"]  # a parameter of `resume`
    assert written(tool, "ResumeSettings") == {name: train[name] for name in names} | options


def test_the_written_file_is_current(tool):
    if not tool.OUT.exists():
        pytest.skip("accel_rl is not installed from this checkout")
    assert tool.OUT.read_text() == tool.stub(), "run python settings_stub.py, or install again"
