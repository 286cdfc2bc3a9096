"""The help of the command line describes the main options, and lists other options briefly. --help-all describes all
options."""

import ast
import inspect
import itertools
import re
import shutil
import textwrap
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from types import NoneType
from typing import Any, Literal, get_args, get_origin

from accel_rl.envs.atari_games import GAMES
from accel_rl.envs.make import BACKENDS, RANDOMNESS, TRANSLATE
from accel_rl.envs.protocols import PROTOCOLS
from accel_rl.models.networks import NETWORKS
from accel_rl.settings.doors import ENGINES, SCHEDULES, UPDATES
from accel_rl.settings.presets import PRESETS
from accel_rl.settings.types import options_in

HELP = {"-h", "--help", "--help-all"}
USERS = "module:Class"
CHOICES: dict[str, Iterable[str]] = {
    **{"--game": GAMES, "--env.game": GAMES, "--env.protocol": PROTOCOLS, "--env.backend": BACKENDS},
    **{"--env.randomness": RANDOMNESS, "--env.translate": TRANSLATE, "--algo.network": (*NETWORKS, USERS)},
    **{"--sampler.engine": (*ENGINES, USERS), "--distributed.update": (*UPDATES, USERS)},
    **{"--schedule": (*SCHEDULES, USERS), "--preset": PRESETS, "--device": ("auto", "cpu", "cuda")},
}
"""Maps each flag to the values that it allows. `USERS` means that a user's class is also allowed."""
MOST_LISTED = 12
"""Help texts list a flag's allowed values only if there are at most `MOST_LISTED` of them."""
WIDTHS = (80, 120)
"""Minimum and maximum width of a line of help. Between these limits, a line is as wide as the terminal."""
COLUMN = 34
"""Width of the column of flags in a help text."""
TITLES = {
    **{"": "The run", "algo": "Algorithm", "env": "Environment", "sampler": "Sampler", "evaluation": "Evaluation"},
    **{"checkpoint": "Checkpoints", "log": "Log", "secondary": "Second learner", "distributed": "Ranks"},
    "gorila": "Gorila",
}
"""Maps a group of options to its title. A group without an entry has its name as the title."""


@dataclass(frozen=True)
class Option:
    """A flag of the command line. `value` is the kind of value that follows the flag, or the allowed values, or "" for
    a switch. `text` is the docstring of the setting."""

    flag: str
    value: str
    default: str
    text: str

    @property
    def choices(self) -> tuple[str, ...]:
        """The words that a shell may suggest as the value."""
        names = CHOICES.get(self.flag) or (self.value.split(", ") if ", " in self.value else ())
        return tuple(name for name in names if ":" not in name)

    @property
    def group(self) -> str:
        return self.flag[2:].partition(".")[0] if "." in self.flag else ""

    def lines(self, typed: str, width: int, brief: bool = False) -> list[str]:
        """A brief text is one line, with the beginning of the first sentence."""
        is_short = len(self.value) <= COLUMN - len(typed) - 4
        head, default = (
            f"  {typed} {self.value if is_short else '...'}".rstrip(),
            f" [{self.default}]" * (self.default != ""),
        )
        if brief:
            first = re.split(r"(?<!et al)\. (?=[A-Z])", self.text, maxsplit=1)[0].rstrip(".")
            room = max(width - max(COLUMN, len(head) + 1) - len(default), 10)
            return [f"{head:<{COLUMN - 1}} {textwrap.shorten(first, room, placeholder=' ...')}{default}"]
        text = self.text + f" One of {self.value}." * ("," in self.value and not is_short) + default
        wrapped = textwrap.wrap(text, width - COLUMN, break_long_words=False, break_on_hyphens=False)
        beside = wrapped.pop(0) if wrapped and len(head) < COLUMN else ""
        return [f"{head:<{COLUMN}}{beside}".rstrip(), *(" " * COLUMN + line for line in wrapped)]


def options_of(config: Any) -> list[Option]:
    """Options of nested settings, with the values in `config` as their defaults."""
    result = []
    for flag, s in options_in(config).items():
        names = tuple(CHOICES.get(flag, ()))
        kind = "" if s.hint is bool else _kind(get_args(s.hint)[0] if s.is_repeated else s.hint)
        values = s.value if isinstance(s.value, tuple) else (s.value,)
        default = " ".join({"None": "", "True": "on", "False": "off"}.get(str(v), str(v)) for v in values)
        text = next((texts[s.field.name] for c in s.owner.__mro__ if s.field.name in (texts := _texts(c))), "")
        result.append(Option(flag, ", ".join(names) if 0 < len(names) <= MOST_LISTED else kind, default, text))
    return result


def _kind(hint: Any) -> str:
    """N for a whole number, or the values that the type allows."""
    args = [a for a in get_args(hint) if a is not NoneType]
    if get_origin(hint) is Literal:
        return ", ".join(filter(None, args))
    if get_origin(hint) is tuple:
        return f"[{_kind(args[0])} [{_kind(args[0])} ...]]"
    if args and get_origin(args[0]) is Literal and args[1:] == [str]:  # An optimizer of this project, or of torch.
        return f"{_kind(args[0])}, torch:CLASS"
    return "|".join(map(_kind, args)) or {int: "N", float: "FLOAT", str: "STR", bool: "True, False"}.get(hint, "VALUE")


@cache
def _texts(cls: type) -> dict[str, str]:
    """Docstrings below the fields that a class itself declares, without line breaks."""
    try:
        body: Any = ast.parse(textwrap.dedent(inspect.getsource(cls))).body[0]
    except (OSError, TypeError, SyntaxError):  # The class was not read from a file.
        return {}
    below = itertools.pairwise(body.body)
    texts: list[Any] = [pair for pair in below if [*map(type, pair)] == [ast.AnnAssign, ast.Expr]]
    return {declared.target.id: " ".join(text.value.value.split()) for declared, text in texts}


def help_text(prog: str, does: str, options: list[Option], main: Mapping[str, str], modes: Mapping[str, str]) -> str:
    """`main` maps each flag that is described first to its short form; the other options are then described in a line.
    Without `main`, all options are described. `modes` maps each group of options that the text omits to the condition
    under which they have an effect."""
    width = min(max(shutil.get_terminal_size((100, 24)).columns, WIDTHS[0]), WIDTHS[1])
    lines = [f"usage: {prog} [options]"]
    for paragraph in does.strip().split("\n\n"):  # Indented paragraphs are not wrapped.
        filled = textwrap.wrap(paragraph, width, break_on_hyphens=False)
        lines += ["", *(paragraph.split("\n") if paragraph.startswith(" ") else filled)]
    by_flag, groups = {option.flag: option for option in options}, dict.fromkeys(option.group for option in options)
    if main:
        lines += ["", "Main options"]
        lines += [line for flag in main if flag in by_flag for line in by_flag[flag].lines(main[flag], width)]
    for group in [group for group in groups if group not in modes]:
        lines += ["", TITLES.get(group, group) if group or "algo" in groups else "Options"]
        for option in [option for option in options if option.group == group and option.flag not in main]:
            lines += option.lines(option.flag, width, brief=bool(main))
    if main:
        lines += ["", *(f"{TITLES[group]}, --{group}.*: {when}." for group, when in modes.items())]
        lines += ["--help-all prints all options with their texts."]
    return "\n".join(lines)


def asked(argv: Iterable[str]) -> bool:
    return not HELP.isdisjoint(argv)
