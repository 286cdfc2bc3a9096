"""The help of the command line describes the main options, and lists other options briefly. --help-all describes all
options."""

import ast
import importlib
import inspect
import itertools
import re
import textwrap
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from types import NoneType
from typing import Any, Literal, get_args, get_origin

from accel_rl.settings.types import options_in
from accel_rl.text.output import help_width

HELP = {"-h", "--help", "--help-all"}
CHOICES = {
    **{"--game": "envs.atari_games:GAMES", "--env.game": "envs.atari_games:GAMES"},
    **{"--env.protocol": "envs.protocols:PROTOCOLS", "--env.backend": "envs.make:BACKENDS"},
    **{"--env.randomness": "envs.make:RANDOMNESS", "--env.translate": "envs.make:TRANSLATE"},
    **{"--algo.network": "models.networks:NETWORKS", "--sampler.engine": "settings.doors:ENGINES"},
    **{"--distributed.update": "settings.doors:UPDATES", "--schedule": "settings.doors:SCHEDULES"},
    **{"--preset": "settings.presets:PRESETS", "--device": "parsing.help:DEVICES"},
}
"""Maps each flag to `module:name` of its allowed values. The module is imported only for a command with the flag,
because some of these modules import torch."""
USERS = ("--algo.network", "--sampler.engine", "--distributed.update", "--schedule")
"""The flags `USERS` also allow a user's class, module:Class."""
DEVICES = ("auto", "cpu", "cuda")
MOST_LISTED = 12
"""Help texts list a flag's allowed values only if there are at most `MOST_LISTED` of them."""
COLUMN = 34
"""Width of the column of flags in a help text."""
NARROW = 72
"""In a terminal with fewer columns than `NARROW`, texts are printed below the flags."""
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
        names = allowed(self.flag) or (self.value.split(", ") if ", " in self.value else ())
        return tuple(name for name in names if ":" not in name)

    @property
    def group(self) -> str:
        return self.flag[2:].partition(".")[0] if "." in self.flag else ""

    def lines(self, typed: str, width: int, brief: bool = False) -> list[str]:
        """The option's lines of help. With `brief`, the text is the docstring's first sentence without sources, or only
        the allowed values if both do not fit in a line."""
        column = COLUMN if width >= NARROW else 6
        is_listed = ", " in self.value and len(typed) + len(self.value) > column - 4
        text, default = self.text, f"[{self.default}]" * (self.default != "")
        if brief:
            text = re.sub(r" ?\([^()]*\)", "", re.split(r"(?<!et al)\. (?=[A-Z])", text, maxsplit=1)[0]).rstrip(".")
            if is_listed:
                line = f"{text}: {self.value}"
                text = line if len(line) + len(default) < width - column else self.value
        elif is_listed:
            text += f" One of {self.value}."
        head = f"  {typed} {'...' if is_listed else self.value}".rstrip()
        head = head if len(head) <= width else f"  {typed}"
        wrapped = textwrap.wrap(f"{text} {default}".strip(), width - column, break_on_hyphens=False)
        beside = wrapped.pop(0) if wrapped and len(head) < column else ""
        return [f"{head:<{column}}{beside}".rstrip(), *(" " * column + line for line in wrapped)]


@cache
def allowed(flag: str) -> tuple[str, ...]:
    """The values that a flag allows, or () if the flag has no list of allowed values."""
    if flag not in CHOICES:
        return ()
    module, _, name = CHOICES[flag].partition(":")
    names = getattr(importlib.import_module(f"accel_rl.{module}"), name)
    return (*names, *["module:Class"] * (flag in USERS))


def options_of(config: Any) -> list[Option]:
    """Options of nested settings, with the values in `config` as their defaults."""
    result = []
    for flag, s in options_in(config).items():
        names = allowed(flag)
        kind = "" if s.hint is bool else _kind(get_args(s.hint)[0] if s.is_repeated else s.hint)
        values = s.value if isinstance(s.value, tuple) else (s.value,)
        default = " ".join({"None": "", "True": "on", "False": "off"}.get(str(v), str(v)) for v in values)
        text = next((texts[s.field.name] for c in s.owner.__mro__ if s.field.name in (texts := _texts(c))), "")
        result.append(Option(flag, ", ".join(names) if 0 < len(names) <= MOST_LISTED else kind, default, text))
    return result


def _kind(hint: Any) -> str:
    """The help's text for a type: N for a whole number, or the list of allowed values."""
    args = [a for a in get_args(hint) if a is not NoneType]
    if get_origin(hint) is Literal:
        return ", ".join(filter(None, args))
    if get_origin(hint) is tuple:
        return "N-N,N" if args[0] is int else f"[{_kind(args[0])} [{_kind(args[0])} ...]]"
    if args and get_origin(args[0]) is Literal and args[1:] == [str]:  # AnyOptimizer
        return f"{_kind(args[0])}, torch:CLASS"
    return "|".join(map(_kind, args)) or {int: "N", float: "FLOAT", str: "STR", bool: "True, False"}.get(hint, "VALUE")


@cache
def _texts(cls: type) -> dict[str, str]:
    """Maps each field that the class itself declares to the docstring below the field, without line breaks."""
    try:
        body: Any = ast.parse(textwrap.dedent(inspect.getsource(cls))).body[0]
    except (OSError, TypeError, SyntaxError):  # A class that was not read from a file has no source code.
        return {}
    below = itertools.pairwise(body.body)
    texts: list[Any] = [pair for pair in below if [*map(type, pair)] == [ast.AnnAssign, ast.Expr]]
    return {declared.target.id: " ".join(text.value.value.split()) for declared, text in texts}


def help_text(prog: str, does: str, options: list[Option], main: Mapping[str, str], modes: Mapping[str, str]) -> str:
    """`main` maps each flag that is described first to its short form; each other option is then described in one line.
    Without `main`, all options are described. `modes` maps each group of options that the text omits to the condition
    under which the group has an effect."""
    width, lines = help_width(), [f"usage: {prog} [options]"]
    for paragraph in does.strip().split("\n\n"):  # An indented paragraph contains commands, whose line breaks are kept.
        lines += ["", paragraph if paragraph.startswith(" ") else " ".join(paragraph.split())]
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
