"""Write docs/commands.md from the options of each command: `python docs/tools/commands.py`. A test compares the two."""

import contextlib
import importlib
import io
import re
import warnings
from pathlib import Path
from typing import Any
from unittest.mock import patch

import tyro

from accel_rl.cli.main import COMMANDS
from accel_rl.config.registry import ALGORITHMS

OUT = Path(__file__).parents[1] / "commands.md"
TABLE = "| option | value | default | |\n|---|---|---|---|"
GROUPS = {
    "": "The run",
    "env": "Environment",
    "sampler": "Sampler",
    "evaluation": "Evaluation",
    "checkpoint": "Checkpoints",
    "log": "Log",
    "secondary": "Second learner",
    "distributed": "Ranks",
    "gorila": "Gorila",
}
INTRO = """# Commands

Written by `docs/tools/commands.py` from what `accel-rl COMMAND --help` prints; a test compares the two.

A setting can be written without its group if its name is unique: `--envs 32` for `--sampler.envs 32`. N is a whole
number, also written as `1e6`. `--strict` switches on, `--no-strict` off. The same names are keywords in Python, with
two underscores for a point ([from Python](python.md)).

Exit codes: 0 done, 1 the run failed, 2 bad input, 128 + n stopped by signal n ([faults](faults.md#exit-codes)).
"""


class _Found(Exception):
    pass


def options(module: str, argv: list[str]) -> list[Any]:
    """Return the options that a command parses, as argparse's actions."""
    found: dict[str, Any] = {}

    def cli(cls: Any, **given: Any) -> None:
        given.pop("args")
        registry = given.pop("registry")
        with warnings.catch_warnings(action="ignore", category=DeprecationWarning), registry:
            found["parser"] = tyro.extras.get_parser(cls, **given)
        raise _Found

    with patch.object(tyro, "cli", cli), contextlib.suppress(_Found):
        importlib.import_module(module).main(argv)
    return [a for a in found["parser"]._actions if "--help" not in a.option_strings]


def printed(module: str, argv: list[str]) -> str:
    """Return what a command prints."""
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        importlib.import_module(module).main(argv)
    return out.getvalue().rstrip()


def row(action: Any) -> str:
    flag = action.option_strings[0]
    text = " ".join(str(action.help or "").split())
    help_, _, default = text.rpartition(" (default: ")
    default = default.removesuffix(")").strip("'")
    if not help_ and not text.startswith("(default"):
        help_, default = text, ""
    value = "" if action.metavar is None else action.metavar
    if value.startswith("{None}|"):
        value = value.removeprefix("{None}|")
    choices = re.fullmatch(r"\{([^\[]*)\}", value)
    if choices:
        value = ", ".join(c for c in choices[1].split(",") if c not in ("", "None"))
    default = {"None": "", "True": "on", "False": "off"}.get(default, default)
    cells = [f"`{flag}`", value and f"`{value}`", default and f"`{default}`", _prose(help_)]
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def _prose(text: str) -> str:
    text = re.sub(r"(?<![\w`])(--[\w][\w.-]*[\w])", r"`\1`", text)  # flags read as code
    return re.sub(r"`([^`]*)`([^`]*)`([^`]*)`", lambda m: m[0] if "`" not in m[2] else m[2], text).replace("<", "&lt;")


def table(actions: list[Any]) -> str:
    return "\n".join([TABLE, *map(row, actions)])


def group(action: Any) -> str:
    return action.option_strings[0][2:].partition(".")[0] if "." in action.option_strings[0] else ""


def train() -> list[str]:
    """All settings: those of every run once, those of the algorithm for each algorithm."""
    shared = options("accel_rl.cli.train", ["ppo"])
    lines = ["The defaults of `--sampler.envs` and `--sampler.horizon` are PPO's; each algorithm has its own.", ""]
    for name, title in GROUPS.items():
        lines += [f"### {title}", "", table([a for a in shared if group(a) == name]), ""]
    for algorithm in ALGORITHMS:
        actions = options("accel_rl.cli.train", [algorithm])
        sampling = {a.option_strings[0]: row(a).split("|")[3].strip() for a in actions}
        horizon = sampling["--sampler.horizon"] or "from the batch size"
        lines += [
            f"### Settings of {algorithm}",
            "",
            f"Environments: {sampling['--sampler.envs']}; horizon: {horizon}.",
        ]
        lines += ["", table([a for a in actions if group(a) == "algo"]), ""]
    return lines


def page() -> str:
    """Return the text of docs/commands.md."""
    lines = [INTRO]
    for command, does in COMMANDS.items():
        what, _, example = does.partition(": ")
        lines += [f"## accel-rl {command}", "", what[0].upper() + what[1:] + "."]
        lines += ["", "```", example, "```", ""] if example else [""]
        if command == "train":
            lines += train()
        elif command == "doctor":
            lines += ["```text", printed(f"accel_rl.cli.{command}", ["--help"]), "```", ""]
        elif command != "games":
            lines += [table(options(f"accel_rl.cli.{command}", ["--help"])), ""]
    return "\n".join(lines).rstrip() + "\n"


if __name__ == "__main__":
    OUT.write_text(page())
