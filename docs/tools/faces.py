"""Writes the table of docs/vector_env.md: the options of VectorEnv beside those of ale-py's environments.

python docs/tools/faces.py
"""

import enum
import inspect
from pathlib import Path
from typing import Any

from ale_py.env import AtariEnv
from ale_py.vector_env import AtariVectorEnv

from accel_rl.emulator import VectorEnv

PAGE = Path(__file__).parents[1] / "vector_env.md"
START, END = "<!-- faces -->\n", "<!-- /faces -->"
CLASSES = (VectorEnv, AtariVectorEnv, AtariEnv)
NAMES = ("VectorEnv, accel_rl/...-v5", "AtariVectorEnv", "AtariEnv, ALE/...-v5")


def table() -> str:
    options = [_options(cls) for cls in CLASSES]
    names = list(dict.fromkeys(name for defaults in options for name in defaults))
    lines = [f"| option | {' | '.join(NAMES)} |", "|---" * (len(NAMES) + 1) + "|"]
    for name in names:
        cells = [f"`{_text(defaults[name])}`" if name in defaults else "-" for defaults in options]
        lines.append(f"| `{name}` | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def page() -> str:
    """Return the text of the page with the current table in place of the old one."""
    text = PAGE.read_text()
    return text[: text.index(START) + len(START)] + table() + text[text.index(END) :]


def _options(cls: type) -> dict[str, Any]:
    parameters = inspect.signature(cls.__init__).parameters.values()
    return {p.name: p.default for p in parameters if p.default is not p.empty}


def _text(default: object) -> str:
    return repr(default.value if isinstance(default, enum.Enum) else default)


if __name__ == "__main__":
    PAGE.write_text(page())
