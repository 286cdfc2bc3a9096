"""The help of the command line describes the main options, and lists other options briefly. --help-all describes all
options."""

import re
import shutil
import textwrap
import warnings
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import tyro

from accel_rl.envs.atari_games import GAMES
from accel_rl.envs.make import BACKENDS, RANDOMNESS, TRANSLATE
from accel_rl.envs.protocols import PROTOCOLS
from accel_rl.models.networks import NETWORKS
from accel_rl.settings.doors import ENGINES, SCHEDULES, UPDATES
from accel_rl.settings.presets import PRESETS

USERS = "module:Class"
CHOICES: dict[str, Iterable[str]] = {
    "--game": GAMES,
    "--env.game": GAMES,
    "--env.protocol": PROTOCOLS,
    "--env.backend": BACKENDS,
    "--env.randomness": RANDOMNESS,
    "--env.translate": TRANSLATE,
    "--algo.network": (*NETWORKS, USERS),
    "--sampler.engine": (*ENGINES, USERS),
    "--distributed.update": (*UPDATES, USERS),
    "--schedule": (*SCHEDULES, USERS),
    "--preset": tuple(PRESETS),
    "--device": ("auto", "cpu", "cuda"),
}
"""Maps each flag to the values that it allows. `USERS` means that a user's class is also allowed."""
MOST_LISTED = 12
"""Help texts list a flag's allowed values only if there are at most `MOST_LISTED` of them."""


def listed(flag: str) -> str:
    """Return a list of a flag's allowed values for a help text, or "" if the flag has no such list, or the list is too
    long."""
    names = tuple(CHOICES.get(flag, ()))
    return ", ".join(names) if len(names) <= MOST_LISTED else ""


WIDTHS = (80, 120)
"""Minimum and maximum width of a line of help. Between these limits, a line is as wide as the terminal."""
COLUMN = 34
"""Width of the column of flags in a help text."""
TITLES = {
    "": "The run",
    "algo": "Algorithm",
    "env": "Environment",
    "sampler": "Sampler",
    "evaluation": "Evaluation",
    "checkpoint": "Checkpoints",
    "log": "Log",
    "secondary": "Second learner",
    "distributed": "Ranks",
    "gorila": "Gorila",
}
"""Maps a group of options to its title. A group without an entry has its name as the title."""


@dataclass(frozen=True)
class Option:
    """An `Option` describes a flag of the command line. `value` is the kind of value that follows the flag, or the
    allowed values, or "" for a switch."""

    flag: str
    value: str
    default: str
    text: str

    @property
    def choices(self) -> tuple[str, ...]:
        """Return the words that a shell may suggest as the value."""
        names = CHOICES.get(self.flag) or (self.value.split(", ") if ", " in self.value else ())
        return tuple(name for name in names if ":" not in name)

    @property
    def group(self) -> str:
        return self.flag[2:].partition(".")[0] if "." in self.flag else ""


@dataclass(frozen=True)
class Help:
    """`Help` arranges the options in a command's help text. `main` maps each flag that is described first to its short
    form. `modes` maps each group of options that the help omits to the condition under which the options have an
    effect. If `main` is empty, all options are described."""

    main: Mapping[str, str] = field(default_factory=dict)
    modes: Mapping[str, str] = field(default_factory=dict)


def options_of(cls: type, default: Any, registry: Any) -> list[Option]:
    """Return the options of a dataclass of settings, in their order. tyro's `registry` defines how values are
    parsed."""
    with warnings.catch_warnings(action="ignore", category=DeprecationWarning), registry:
        parser = tyro.extras.get_parser(cls, default=default)
    return [_option(action) for action in parser._actions if "--help" not in action.option_strings]


def _option(action: Any) -> Option:
    text = " ".join(str(action.help or "").split())  # Line breaks in the docstring of a setting are removed.
    text, _, shown = text.removesuffix(" (repeatable)").partition("(default: ")
    shown = shown.removesuffix(")").strip("'")
    value = (action.metavar or "").removeprefix("{None}|").replace("{[", "[").replace("]}", "]")
    if choices := re.fullmatch(r"\{([^\[]*)\}", value):
        value = ", ".join(c for c in choices[1].split(",") if c not in ("", "None"))
    # The value is the name of an optimizer of this project, or of torch.
    if named := re.fullmatch(r"\{([^\[]*)\}\|STR", value):
        value = ", ".join([*named[1].split(","), "torch:CLASS"])
    value = listed(action.option_strings[0]) or value
    shown = {"None": "", "True": "on", "False": "off"}.get(shown, shown)
    return Option(action.option_strings[0], value, shown, text.strip())


def help_text(prog: str, does: str, options: Sequence[Option], arrangement: Help, everything: bool) -> str:
    """Return the help text of a command. If `everything` is true (--help-all), all options are described."""
    width = min(max(shutil.get_terminal_size((100, 24)).columns, WIDTHS[0]), WIDTHS[1])
    lines = [f"usage: {prog} [options]", "", *_paragraphs(does, width)]
    main = {} if everything else arrangement.main
    hidden: Mapping[str, str] = {} if everything else arrangement.modes
    if main:
        by_flag = {option.flag: option for option in options}
        lines += ["", "Main options"]
        for flag, typed in main.items():
            if flag in by_flag:
                lines += _with_text(by_flag[flag], typed, width)
    for group in dict.fromkeys(option.group for option in options):
        if group in hidden:
            continue
        of_group = [option for option in options if option.group == group and option.flag not in main]
        lines += ["", TITLES.get(group, group) if main or everything or group else "Options"]
        for option in of_group:
            lines += [_in_a_line(option, width)] if main else _with_text(option, option.flag, width)
    if main:
        lines += ["", *(f"{TITLES[group]}, --{group}.*: {when}." for group, when in hidden.items())]
        lines += ["--help-all prints all options with their texts."]
    return "\n".join(lines)


def _head(option: Option, typed: str) -> str:
    short = option.value if len(option.value) <= COLUMN - len(typed) - 4 else "..."
    return f"  {typed} {short}".rstrip()


def _with_text(option: Option, typed: str, width: int) -> list[str]:
    allowed = f" One of {option.value}." if "," in option.value and _head(option, typed).endswith("...") else ""
    text = f"{option.text}{allowed}" + (f" [{option.default}]" if option.default else "")
    wrapped = textwrap.wrap(text, width - COLUMN, break_long_words=False, break_on_hyphens=False) or [""]
    head = _head(option, typed)
    if len(head) >= COLUMN:
        return [head, *(" " * COLUMN + line for line in wrapped)]
    return [f"{head:<{COLUMN}}{wrapped[0]}", *(" " * COLUMN + line for line in wrapped[1:])]


def _in_a_line(option: Option, width: int) -> str:
    head, default = _head(option, option.flag), f" [{option.default}]" if option.default else ""
    first = re.split(r"(?<!et al)\. (?=[A-Z])", option.text, maxsplit=1)[0].rstrip(".")
    room = width - max(COLUMN, len(head) + 1) - len(default)
    return f"{head:<{COLUMN - 1}} {textwrap.shorten(first, max(room, 10), placeholder=' ...')}{default}"


def _paragraphs(text: str, width: int) -> list[str]:
    """Fill the paragraphs of a text to a width. Indented paragraphs of a help text are not wrapped."""
    lines: list[str] = []
    for i, paragraph in enumerate(text.strip().split("\n\n")):
        lines += [""] * (i > 0)
        lines += (
            paragraph.split("\n")
            if paragraph.startswith(" ")
            else textwrap.wrap(paragraph, width, break_on_hyphens=False)
        )
    return lines


def asked(argv: Collection[str]) -> bool:
    """Return whether the arguments request a command's help."""
    return not {"-h", "--help", "--help-all"}.isdisjoint(argv)
