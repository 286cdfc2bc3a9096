"""Command-line arguments are parsed into dataclasses of settings, and every mistake is reported in one line."""

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar

from accel_rl.parsing.help import Option, allowed, asked, help_text, options_of
from accel_rl.settings.flags import full_flag, replaced
from accel_rl.settings.types import described, options_in
from accel_rl.text.errors import ConfigError, nearest
from accel_rl.text.output import print_help, print_text

C = TypeVar("C")
NONE: Mapping[str, str] = {}


class HelpPrinted(SystemExit):
    """Raised after the help of a command was printed."""

    def __init__(self, options: list[Option]):
        super().__init__(0)
        self.options = options


def parse(
    cls: type[C], argv: list[str], prog: str, description: str, default: C | None = None,
    further: Any = None, main: Mapping[str, str] = NONE, modes: Mapping[str, str] = NONE,
) -> C:  # fmt: skip
    """Raises ConfigError, with a message of one line, for invalid arguments. The options `further` are parsed by
    another call (see `split`), but the message about an unknown flag may suggest these options. With --help, print the
    help, arranged by `main` and `modes` (see `help_text`), and raise HelpPrinted. --help-all omits nothing."""
    config, similar = cls() if default is None else default, options_of(further) if further else []
    if asked(argv):
        options, everything = [*similar, *options_of(config)], "--help-all" in argv
        print_help(help_text(prog, description, options, *((NONE, NONE) if everything else (main, modes))))
        raise HelpPrinted(options)
    settings, values = options_in(config), dict[str, Any]()
    (_, strays), *given = grouped(argv)
    _refuse(strays, settings)
    for typed, words in given:
        positive = re.sub(r"^(--|--.*\.)no-", r"\1", typed)
        setting = settings[full_flag(positive, settings, [option.flag for option in similar])]
        if setting.hint is bool:
            if words:
                opposite = re.sub(r"(\w[\w-]*)$", r"no-\1", typed) if positive == typed else positive
                raise ConfigError(f"{typed} {words[0]}: must be without a value; the opposite is {opposite}")
            values[setting.name] = positive == typed
            continue
        if positive != typed:
            values_of = f"one of {', '.join(names)}" if (names := allowed(setting.flag)) else described(setting.hint)
            raise ConfigError(f"{typed}: {setting.flag} is no switch, and must be {values_of}")
        if not words and not setting.takes_many:
            raise ConfigError(f"{setting.flag}: the value is missing")
        _refuse([] if setting.takes_many else words[1:], settings)
        values[setting.name] = replace(setting, value=values.get(setting.name, setting.value)).read(words)
    return replaced(config, values)


def command(
    cls: type[C], argv: list[str], usage: str, does: str, words: Sequence[str] = (), many: bool = False
) -> tuple[list[str], C]:
    """The leading words and the options of a command. `usage` is a text such as "accel-rl evaluate RUN". `words`
    describes the required words. Raises ConfigError."""
    given, options = positionals(argv, words, " ".join(usage.split()[:2]), many)
    return given, parse(cls, options, usage, does)


def _refuse(words: list[str], flags: Iterable[str]) -> None:
    for word in words:
        near = nearest(word, flags) if word.startswith("-") else ""
        raise ConfigError(f"unexpected argument {word!r}{near}")


def grouped(argv: Iterable[str]) -> list[tuple[str, list[str]]]:
    """Pairs (flag, words after this flag). The flag of the first pair is ""; its words precede all flags."""
    result: list[tuple[str, list[str]]] = [("", [])]
    for arg in argv:
        if arg.startswith("--"):
            flag, equals, value = arg.partition("=")
            result.append((flag.replace("_", "-"), [value] if equals else []))
        else:
            result[-1][1].append(arg)
    return result


def split(argv: Iterable[str], flags: Collection[str]) -> tuple[list[str], list[str]]:
    """Split arguments into the options in `flags` and all other options, each with its values."""
    result = known, others = list[str](), list[str]()
    part = others
    for arg in argv:
        if arg.startswith("--") or arg in flags:
            part = known if arg.partition("=")[0].replace("_", "-") in flags else others
        part.append(arg)
    return result


def value_of(argv: list[str], flag: str) -> str | None:
    """The value after the last occurrence of a flag."""
    return next((words[0] for name, words in reversed(grouped(argv)) if name == flag and words), None)


def positionals(argv: list[str], names: Sequence[str], prog: str, many: bool = False) -> tuple[list[str], list[str]]:
    """Split arguments into leading words and options. Raises ConfigError if a word is missing."""
    n = next((i for i, arg in enumerate(argv) if arg.startswith("-")), len(argv))
    if n < len(names) and not asked(argv):
        raise ConfigError(f"{prog}: {names[n]} is missing")
    if n > len(names) and not many:
        raise ConfigError(f"{prog}: unexpected argument {argv[len(names)]!r}")
    return argv[:n], argv[n:]


def stdout(line: str = "") -> None:
    print_text(line)
