"""Write docs/commands.md from the options of each command: `python docs/tools/commands.py`. A test compares
docs/commands.md with the options."""

import contextlib
import io
import os
import re
from pathlib import Path
from unittest import mock

from accel_rl.cli.completion import options
from accel_rl.cli.main import COMMANDS, function_of
from accel_rl.parsing.help import TITLES, Option
from accel_rl.settings.registry import ALGORITHMS

OUT = Path(__file__).parents[1] / "commands.md"
TABLE = "| option | value | default | |\n|---|---|---|---|"
GROUPS = {group: title for group, title in TITLES.items() if group != "algo"}
INTRO = """# Commands

Written by `docs/tools/commands.py` from what `accel-rl COMMAND --help-all` prints; a test compares the two.

A setting can be written without its group if its name is unique: `--envs 32` for `--sampler.envs 32`. N is a whole
number, also written as `1e6`. `--strict` switches on, `--no-strict` off. The same names are keywords in Python, with
two underscores for a point ([from Python](python.md)).

Exit codes: 0 done, 1 the run failed, 2 bad input, 128 + n stopped by signal n ([faults](faults.md#exit-codes)).
"""


def printed(command: str, argv: list[str]) -> str:
    out = io.StringIO()
    with contextlib.redirect_stdout(out), mock.patch.dict(os.environ, COLUMNS="100"):
        function_of(command)(argv)
    return out.getvalue().rstrip()


def row(option: Option) -> str:
    value, default = (text and f"`{text}`" for text in (option.value, option.default))
    cells = [f"`{option.flag}`", value, default, _prose(option.text)]
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def _prose(text: str) -> str:
    text = re.sub(r"(?<![\w`])(--[\w][\w.-]*[\w])", r"`\1`", text)  # Flags in the help text are formatted as code.
    return re.sub(r"`([^`]*)`([^`]*)`([^`]*)`", lambda m: m[0] if "`" not in m[2] else m[2], text).replace("<", "&lt;")


def table(actions: list[Option]) -> str:
    return "\n".join(['<div class="options" markdown>', "", TABLE, *map(row, actions), "", "</div>"])


def train() -> list[str]:
    """Return the tables of settings of accel-rl train: one of the settings of every run, and one for each algorithm."""
    shared = options("train", ["ppo"])
    lines = ["The defaults of `--sampler.envs` and `--sampler.horizon` are PPO's; each algorithm has its own.", ""]
    for name, title in GROUPS.items():
        lines += [f"### {title}", "", table([a for a in shared if a.group == name]), ""]
    for algorithm in ALGORITHMS:
        actions = options("train", [algorithm])
        sampling = {a.flag: row(a).split("|")[3].strip() for a in actions}
        horizon = sampling["--sampler.horizon"] or "from the batch size"
        lines += [
            f"### Settings of {algorithm}",
            "",
            f"Environments: {sampling['--sampler.envs']}; horizon: {horizon}.",
        ]
        lines += ["", table([a for a in actions if a.group == "algo"]), ""]
    return lines


def page() -> str:
    lines = [INTRO]
    for command, does in COMMANDS.items():
        what, _, example = does.partition(": ")
        lines += [f"## accel-rl {command}", "", what[0].upper() + what[1:] + "."]
        lines += ["", "```", example, "```", ""] if example else [""]
        if command == "train":
            lines += train()
        elif command in ("doctor", "completion"):
            lines += ["```text", printed(command, ["--help"]), "```", ""]
        elif command != "games":
            lines += [table(options(command, [])), ""]
    return "\n".join(lines).rstrip() + "\n"


if __name__ == "__main__":
    OUT.write_text(page())
