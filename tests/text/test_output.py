"""Text from untrusted files is escaped before it is printed to the terminal."""

import pytest

from accel_rl.text.errors import ConfigError, RunError, ended
from accel_rl.text.output import escaped, print_text


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("\x1b]0;title\x07\x1b[2J", r"\x1b]0;title\x07\x1b[2J"),
        ("\x9b2J\x7f\x00", r"\x9b2J\x7f\x00"),
        ("a\nb\rc\td", r"a\nb\rc\td"),
        ("\u202egnp.exe\u2028", r"\u202egnp.exe\u2028"),
        # Python's form of a byte in a file name that is not UTF-8, which cannot be printed.
        ("caf\udce9", r"caf\udce9"),
        ("Pöng-v5 ± 3 日本", "Pöng-v5 ± 3 日本"),
    ],
)
def test_characters_that_are_not_printed_are_escaped(text, shown):
    assert escaped(text) == shown


def test_lines_stay_lines(capsys):
    print_text("one\n\x1b[2Jtwo")
    assert capsys.readouterr().out == "one\n\\x1b[2Jtwo\n"


@pytest.mark.parametrize("error", [ConfigError, RunError])
def test_errors_are_escaped(capsys, error):
    def fail(argv):
        raise error("no \x1b[31mname")

    assert ended("accel-rl", fail, []) in (1, 2)
    assert capsys.readouterr().err == "accel-rl: no \\x1b[31mname\n"
