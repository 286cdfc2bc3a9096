"""The games' settings, from games.json: what each game's RAM means, how it is started, what its cartridge is.

A score or lives byte is `[address, form, ...]`; the form says how its 256 values count:

    bcd w      w * (10 * high digit + low digit)        binary w   w * value
    low w      w * low digit                            high w     w * high digit
    low7, low5, low6, low7b, sbyte, bits3-6, bits3-7    other cuts of the byte
    runs [[n, points], ...]   table [points x 256]      anything else

An end of a game is a list of clauses; a clause is a list of conditions `[address, [[first, last], ...]]` that all must
hold.
"""

import functools
import json
from importlib.resources import files
from typing import Any

from accel_rl.errors import ConfigError, nearest

CARTRIDGES = ("2K", "4K", "F8", "F6", "F8SC", "F6SC", "E0", "FE", "DPC")
CONTROLLERS = ("joysticks", "paddles", "paddles_swapped")
NO_LIMIT = 2**30

_FORMS = {
    "bcd": lambda v: 10 * (v >> 4) + (v & 15),
    "binary": lambda v: v,
    "low": lambda v: v & 15,
    "high": lambda v: v >> 4,
    "low7": lambda v: v & 7,
    "low5": lambda v: v & 31,
    "low6": lambda v: v & 63,
    "low7b": lambda v: v & 127,
    "bits3-6": lambda v: v >> 3 & 15,
    "bits3-7": lambda v: v >> 3,
    "sbyte": lambda v: v - 256 if v > 127 else v,
}


def table(form: str, argument: Any, offset: int = 0) -> list[int]:
    """The 256 points of a byte."""
    if form == "table":
        points = list(argument)
    elif form == "runs":
        points = [value for count, value in argument for _ in range(count)]
    else:
        points = [argument * _FORMS[form](v) for v in range(256)]
    return [p + offset for p in points]


@functools.cache
def games() -> dict[str, dict[str, Any]]:
    """All settings by game, in the order of the 57-game benchmark and then the others."""
    return json.loads((files("accel_rl.emulator") / "games.json").read_text())


def _clause(source: list) -> list[tuple[int, list[int]]]:
    return [(address, [v for first, last in spans for v in range(first, last + 1)]) for address, spans in source]


def settings(game: str) -> dict[str, Any]:
    """What the core wants to know about a game. Raises ConfigError for a game that is not in the table."""
    if game not in games():
        raise ConfigError(f"game {game!r} is not emulated{nearest(game, games())}")
    g = games()[game]
    nothing = [0x80, "binary", 0]
    lives, more = g.get("lives", nothing), g.get("lives2", nothing)
    return {
        "score": [(byte[0], table(*byte[1:])) for byte in g.get("score", [])],
        "unscored": _clause(g.get("unscored", [])),
        "wrap": g.get("wrap", 0),
        "least": g.get("reward_least", -NO_LIMIT),
        "most": g.get("reward_most", NO_LIMIT),
        "lives": (lives[0], table(*lives[1:])),
        "more_lives": (more[0], table(*more[1:])),
        "lives_at_reset": g.get("lives_at_reset", -1),
        "lives_fall": g.get("lives_fall", False),
        "last_life": g.get("last_life", []),
        "no_lives_when_over": g.get("no_lives_when_over", False),
        "over": [_clause(clause) for clause in g.get("over", [])],
        "reset_frames": g["reset_frames"],
        "start": [tuple(press) for press in g.get("start", [])],
        "fire_is_noop": g.get("fire_is_noop", False),
        "controllers": CONTROLLERS.index(g.get("controllers", "joysticks")),
        "pal": g.get("pal", False),
        "first_line": g["first_line"],
        "height": g["height"],
        "hmove_blanks": g.get("hmove_blanks", True),
    }


def cartridge(game: str) -> int:
    return CARTRIDGES.index(games()[game]["cartridge"])
