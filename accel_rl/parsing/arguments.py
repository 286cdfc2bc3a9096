"""Command-line arguments are parsed into dataclasses (by tyro), and every mistake is reported in one line."""

import contextlib
import dataclasses
import io
import re
import typing
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, TypeVar, cast

import tyro
from tyro.constructors import ConstructorRegistry, PrimitiveConstructorSpec, PrimitiveTypeInfo

from accel_rl.parsing.help import Help, Option, asked, help_text, options_of
from accel_rl.settings.flags import complete, flags_of
from accel_rl.text.counts import parse_count
from accel_rl.text.errors import ConfigError, nearest
from accel_rl.text.output import print_text

C = TypeVar("C")
PLAIN = Help()
_registry = ConstructorRegistry()
_collected: list[Option] | None = None


@_registry.primitive_rule
def _whole_number(info: PrimitiveTypeInfo) -> PrimitiveConstructorSpec[Any] | None:
    """Parse whole numbers with `parse_count`."""
    types: tuple[Any, ...] = typing.get_args(info.type) or (info.type,)
    optional = type(None) in types
    if set(types) - {type(None)} != {int} or (info.type_origin and not optional):
        return None
    return PrimitiveConstructorSpec(
        nargs=1,
        metavar="N",
        instance_from_str=lambda args: None if optional and args[0] == "None" else parse_count(args[0]),
        is_instance=lambda x: (isinstance(x, int) and not isinstance(x, bool)) or (optional and x is None),
        str_from_instance=lambda x: [str(x)],
    )


def _mark(cls: Any) -> None:
    """Remove the flags of dataclass fields with the metadata `hidden`, and allow flags of fields with the metadata
    `appended` to be repeated. Only the command line needs tyro, so the settings do not import tyro."""
    marks: dict[str, Any] = {"hidden": tyro.conf.Suppress, "appended": tyro.conf.UseAppendAction}
    for f in dataclasses.fields(cls):
        for name in marks.keys() & f.metadata.keys():
            cls.__annotations__[f.name] = marks[name][typing.get_type_hints(cls)[f.name]]


def parse(
    cls: type[C],
    argv: list[str],
    prog: str,
    description: str,
    default: C | None = None,
    arrangement: Help = PLAIN,
    similar: Iterable[str] = (),
) -> C:
    """Parse command-line arguments into the dataclass of options. Raises ConfigError, with a message of one line, for
    invalid arguments. The message about an unknown flag may also suggest one of the flags `similar`. With --help or
    --help-all, print the arranged help and raise SystemExit."""
    _mark(cls)
    if asked(argv):
        options = options_of(cls, default, _registry)
        if _collected is not None:
            _collected.extend(options)
            raise SystemExit(0)
        stdout(help_text(prog, description, options, arrangement, everything="--help-all" in argv))
        raise SystemExit(0)
    argv = complete(argv, flags_of(cls, default), similar)
    errors = io.StringIO()
    try:
        with contextlib.redirect_stderr(errors):
            # Comments beside settings are only read for the help, because reading them takes a third of the parsing
            # time.
            quick = (tyro.conf.HelptextFromCommentsOff,)
            parsed = tyro.cli(
                cls, prog=prog, description=description, default=default, args=argv, registry=_registry, config=quick
            )
            return cast(C, parsed)
    except SystemExit as e:
        if e.code in (0, None):
            raise
        raise ConfigError(_one_line(errors.getvalue())) from e


@contextlib.contextmanager
def collected() -> Iterator[list[Option]]:
    """Return a context manager in which a command's --help appends the command's options to a list, instead of printing
    the help."""
    global _collected
    _collected = []
    try:
        yield _collected
    except SystemExit:
        pass
    finally:
        _collected = None


def _one_line(boxed: str) -> str:
    """Convert tyro's error message, which is drawn in a box, into one line."""
    text = re.sub(r"\x1b\[[0-9;]*m", "", boxed)
    lines = [line.strip("│╭╮╰╯─ \t") for line in text.splitlines()]
    kept = []
    for line in lines:
        if re.match(r"(For full helptext|Full helptext|For more information|Parsing error|see --help)", line):
            continue
        if line:
            kept.append(line)
    # Repeated lines are removed, because the title of tyro's box may repeat the text of the box.
    return _plain(" ".join(dict.fromkeys(kept)))


def _plain(text: str) -> str:
    """Convert tyro's message about an argument into this project's form: flag, given value, allowed values."""
    if error := re.search(r"Error parsing (--\S+): (.*?)(?: Argument helptext:.*)?$", text):
        flag, why = error.groups()
        if number := re.fullmatch(r"could not convert string to float: '(.*)'", why):
            why = f"{number[1]!r} is no number"
        if values := re.match(r"no type matching .*? could be instantiated from \[(.*?)\]", why):
            why = f"{values[1].replace(chr(39), '')} is no value of this option; see --help"
        return f"{flag}: {why}"
    if choice := re.search(r"invalid choice '(.*?)' for argument '(--\S+)'\. Expected one of \((.*?)\)", text):
        got, names = choice[1], re.findall(r"'([^']*)'", choice[3])
        return f"{choice[2]} {got}: must be one of {', '.join(filter(None, names))}{nearest(got, names)}"
    if missing := re.search(r"Missing value for argument '(?:\(')?(--[\w.-]+)", text):
        return f"{missing[1]}: the value is missing"
    if further := re.search(r"Unrecognized options: (.*)$", text):
        return f"unexpected argument {further[1]!r}"
    return text or "the arguments do not fit"


def positionals(argv: list[str], names: list[str], prog: str, many: bool = False) -> tuple[list[str], list[str]]:
    """Split arguments into leading words and options, or raise ConfigError if a word is missing."""
    n = 0
    while n < len(argv) and not argv[n].startswith("-") and (many or n < len(names)):
        n += 1
    if n < len(names) and not asked(argv):
        raise ConfigError(f"{prog}: {names[n]} is missing")
    if n < len(argv) and not argv[n].startswith("-"):
        raise ConfigError(f"{prog}: unexpected argument {argv[n]!r}")
    return argv[:n], argv[n:]


def split(argv: list[str], flags: Mapping[str, str]) -> tuple[list[str], list[str]]:
    """Split arguments into the options whose flag is one of `flags` (see `flags_of`), in its full or short form, and
    all other options. Each option stays with its values."""
    names = {*flags, *(f"--{name}" for name in flags.values()), "-h", "--help", "--help-all"}
    known: list[str] = []
    others: list[str] = []
    chosen = known
    for arg in argv:
        if arg.startswith("--") or arg == "-h":
            chosen = known if arg.partition("=")[0].replace("_", "-") in names else others
        chosen.append(arg)
    return known, others


def value_of(argv: list[str], flag: str) -> str | None:
    """Return the text of the last value that the arguments give for a flag, or None if they do not contain the flag."""
    value = None
    for i, arg in enumerate(argv):
        if arg == flag:
            value = argv[i + 1] if i + 1 < len(argv) else None
        elif arg.startswith(flag + "="):
            value = arg.partition("=")[2]
    return value


def stdout(line: str = "") -> None:
    print_text(line)
