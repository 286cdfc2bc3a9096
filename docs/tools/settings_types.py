"""Write accel_rl/api/train_settings.py, the types of the settings of `accel_rl.train` and `Run.resume`: `python
docs/tools/settings_types.py`. A test compares the file with the settings."""

import dataclasses
import subprocess
import sys
import types
import typing
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

from accel_rl.api.options import ResumeOptions, keywords_of
from accel_rl.settings.changeable import CHANGEABLE
from accel_rl.settings.flags import flags_of
from accel_rl.settings.registry import ALGORITHMS
from accel_rl.settings.train import TrainConfig, default_config

OUT = Path(__file__).parents[2] / "accel_rl" / "api" / "train_settings.py"
PARAMETERS = {"algorithm", "run_dir", "init"}
"""Settings that `accel_rl.train` has as parameters of its own."""
HEAD = '''"""The names and types of the settings of `accel_rl.train` and `Run.resume`, for editors and type checkers.

Written by docs/tools/settings_types.py from the classes of settings. The settings are those of all algorithms of this
project; the settings of a user's algorithm are given by its Config, `accel_rl.train(MyPPO.Config(...), ...)`.
"""

from collections.abc import Sequence
from typing import Literal, TypedDict
'''


def text(hint: Any) -> str:
    """Return the source of a setting's type. Whole numbers may be given as floats, such as 1e6."""
    origin, args = get_origin(hint), get_args(hint)
    if origin is Literal:
        return f"Literal[{', '.join(repr(a).replace(chr(39), chr(34)) for a in args)}]"
    if origin is tuple:
        return f"Sequence[{text(args[0])}]"
    if origin in (typing.Union, types.UnionType):
        names = dict.fromkeys(text(a) for a in args)
        return "str" if set(map(text, args)) > {"str"} and "None" not in names else " | ".join(names)
    return {int: "float", float: "float", bool: "bool", str: "str", type(None): "None"}[hint]


def types_of(part: Any, prefix: str = "") -> dict[str, str]:
    """Map the full name of each setting, such as env.game, to the source of its type."""
    result: dict[str, str] = {}
    hints = typing.get_type_hints(type(part))
    for f in dataclasses.fields(part):
        value = getattr(part, f.name)
        if dataclasses.is_dataclass(value):
            result |= types_of(value, f"{prefix}{f.name}.")
        else:
            result[prefix + f.name] = text(hints[f.name])
    return result


def keywords() -> dict[str, str]:
    """Map each keyword, full or short, to the source of its type."""
    found: dict[str, dict[str, None]] = {}
    for algorithm in ALGORITHMS:
        config = default_config(algorithm)
        names = list(flags_of(TrainConfig, config).values())
        for name, kind in types_of(config).items():
            short = name.rpartition(".")[2]
            unique = names.count(short.replace("_", "-")) == 1
            for keyword in (name.replace(".", "__"), *([short] if unique else [])):
                found.setdefault(keyword, {})[kind] = None
    return {name: " | ".join(kinds) for name, kinds in found.items() if name not in PARAMETERS}


def resume_keywords(settings: dict[str, str]) -> dict[str, str]:
    """Map each keyword of `Run.resume` to the source of its type: the options of the command, and the settings that a
    resumed run may change."""
    changeable = [k for name in CHANGEABLE for k in (name.replace(".", "__"), name.rpartition(".")[2]) if k in settings]
    types = types_of(ResumeOptions())
    options = {keyword: types[name] for keyword, name in keywords_of(ResumeOptions).items() if keyword != "env_steps"}
    return {name: settings[name] for name in changeable} | options


def typed_dict(name: str, types: dict[str, str]) -> str:
    lines = [f"    {keyword}: {kind}\n" for keyword, kind in sorted(types.items())]
    return f"class {name}(TypedDict, total=False):\n{''.join(lines)}\n\n"


def page() -> str:
    settings = keywords()
    source = HEAD + typed_dict("TrainSettings", settings) + typed_dict("ResumeSettings", resume_keywords(settings))
    command = [sys.executable, "-m", "ruff", "format", "--stdin-filename", str(OUT), "-"]
    return subprocess.run(command, input=source, capture_output=True, text=True, check=True).stdout


if __name__ == "__main__":
    OUT.write_text(page())
