"""Read the ROMs of games, and games.json. For each game, games.json describes which bytes of RAM contain score and
lives, how the game is started, and the type of the cartridge.

A RAM byte that contains score or lives is described by `[address, form, ...]`. The form maps the byte's 256 values to
points or lives:

    | bcd w      w * (10 * high digit + low digit)        binary w   w * value
    | low w      w * low digit                            high w     w * high digit
    | low7, low5, low6, low7b, sbyte, bits3-6, bits3-7    other cuts of the byte
    | runs [[n, points], ...]   table [points x 256]      anything else

A game is over if any clause of a list is true. A clause is a list of conditions, and is true if all its conditions are.
A condition `[address, [[first, last], ...]]` is true if the RAM byte at the address lies in one of the ranges.

`start` lists the joystick and switch inputs at the end of a reset, each as `[action, switches, frames]`. `modes`
describes how a reset chooses a mode of the game. First, the inputs `[action, switches, frames, gap, sticks]` of
`before` are played. After `before`, SELECT is repeatedly pressed for `select` frames and released for one frame. The
mode is reached when the RAM byte at address `at` equals the mode's number plus one of `values`, or when the mode's
clause in `until` is true. In games with a `menu`, joystick inputs choose the mode in the menu instead of SELECT. At the
end, the inputs of `after` are played.

If a game is marked `inexact`, its rules differ from ale-py's in rare states.
"""

import functools
import json
import os
import re
import zlib
from collections.abc import Sequence
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from accel_rl.text.errors import ConfigError, nearest
from accel_rl.text.notes import say_once

CARTRIDGES = ("2K", "4K", "F8", "F6", "F8SC", "F6SC", "E0", "FE", "DPC")
CONTROLLERS = ("joysticks", "paddles", "paddles_swapped", "joysticks_swapped")
NO_LIMIT = 2**30
BENCHMARK_GAMES = 57  # The first 57 entries of `games()` are the benchmark games.
SCREEN_ROWS = 210  # The screens of most games have 210 rows.
RESET, SELECT = 1, 2  # bits of the console's switches RESET and SELECT
RIGHT, LEFT, DOWN = 3, 4, 5

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
    """Return the points or lives that each of the 256 values of a RAM byte means."""
    if form == "table":
        points = list(argument)
    elif form == "runs":
        points = [value for count, value in argument for _ in range(count)]
    else:
        points = [argument * _FORMS[form](v) for v in range(256)]
    return [p + offset for p in points]


@functools.cache
def games() -> dict[str, dict[str, Any]]:
    """Return the entries of games.json by game, the 57 benchmark games first."""
    result: dict[str, dict[str, Any]] = json.loads((files("accel_rl.emulator") / "games.json").read_text())
    return result


def camel_case(game: str) -> str:
    """Return a game's name in the ids of Gymnasium and EnvPool, such as MsPacman for ms_pacman."""
    return "".join(word.upper() if word == "3d" else word.capitalize() for word in game.split("_"))


def bare_name(task: str) -> str:
    """Return the game's name in an id, such as MsPacman in MsPacman-v5, ALE/MsPacman-v5 or MsPacmanNoFrameskip-v4."""
    return re.sub(r"^(ALE|accel_rl)/|(NoFrameskip|Deterministic)?-v[0-9]+$", "", task)


def task_game(task: str) -> str:
    """Return accel_rl's name of a game, such as ms_pacman, for an id of Gymnasium or EnvPool, such as MsPacman-v5, or
    for ms_pacman itself. Raises ConfigError if the game is not emulated."""
    name = bare_name(task)
    tasks = {camel_case(game): game for game in games()} | {game: game for game in games()}
    if name not in tasks:
        raise ConfigError(f"task {task!r}: must be a game, as in Pong-v5{nearest(name, tasks)}")
    return tasks[name]


def _clause(source: list[Any]) -> list[tuple[int, list[int]]]:
    return [(address, [v for first, last in spans for v in range(first, last + 1)]) for address, spans in source]


def settings(game: str) -> dict[str, Any]:
    """Return a game's rules in the form that the compiled emulator reads. Raises ConfigError if the game is not in
    games.json."""
    if game not in games():
        raise ConfigError(f"game {game!r} is not emulated{nearest(game, games())}")
    g = games()[game]
    nothing = [0x80, "binary", 0]
    lives, more = g.get("lives", nothing), g.get("lives2", nothing)
    return {
        "score": [(byte[0], table(*byte[1:])) for byte in g.get("sets", []) + g.get("score", [])],
        "first_bytes": len(g.get("sets", [])),
        "per_change": g.get("per_change", 0),
        "unscored": _clause(g.get("unscored", [])),
        "scored": _clause(g.get("scored", [])),
        "restarts": _clause(g.get("restarts", [])),
        "restart_score": g.get("restart_score", 0),
        "wrap": g.get("wrap", 0),
        "unpaid": g.get("unpaid", 0),
        "rolls_over": g.get("rolls_over", 0),
        "over_when_scored": g.get("over_when_scored", False),
        "least": g.get("reward_least", -NO_LIMIT),
        "most": g.get("reward_most", NO_LIMIT),
        "lives": (lives[0], table(*lives[1:])),
        "more_lives": (more[0], table(*more[1:])),
        "lives_at_reset": g.get("lives_at_reset", -1),
        "lives_when": _clause(g.get("lives_when", [])),
        "lives_else": g.get("lives_else", -1),
        "lives_latch": g.get("lives_latch", False),
        "loss_when": _clause(g.get("loss_when", [])),
        "lives_fall": g.get("lives_fall", False),
        "last_life": g.get("last_life", []),
        "no_lives_when_over": g.get("no_lives_when_over", False),
        "no_reward_when_over": g.get("no_reward_when_over", False),
        "over_after": _clause(g.get("over_after", [])),
        "over": [_clause(clause) for clause in g.get("over", [])],
        "full": g.get("full", [0x80, 0]),
        "steps": steps(game, default_mode(game)),
        "fire_is_noop": g.get("fire_is_noop", False),
        "controllers": CONTROLLERS.index(g.get("controllers", "joysticks")),
        "pal": g.get("pal", False),
        "first_line": g["first_line"],
        "height": g["height"],
        "hmove_blanks": g.get("hmove_blanks", True),
    }


def modes(game: str) -> list[int]:
    """Return the mode numbers of a game, with the default first."""
    return list(games()[game].get("modes", {}).get("numbers", [0]))


def difficulties(game: str) -> list[int]:
    """Return the difficulties of a game, with the default first."""
    return list(games()[game].get("difficulties", [0]))


def check_switches(game: str, mode: int | None, difficulty: int | None) -> None:
    """Raise ConfigError if the game does not have this mode or difficulty; None (the default) is always accepted."""
    for switch, value, allowed in (("mode", mode, modes(game)), ("difficulty", difficulty, difficulties(game))):
        if value is not None and (isinstance(value, bool) or value not in allowed):
            choices = ", ".join(str(v) for v in sorted(allowed))
            raise ConfigError(f"{switch}={value!r} is not one of {game}'s: must be one of {choices}")


def default_mode(game: str) -> int:
    return modes(game)[0]


def steps(game: str, mode: int) -> list[tuple[Any, ...]]:
    """Return the inputs that a reset plays, as tuples (action, switches, frames, gap, sticks, until, change) for the
    compiled emulator. An input is repeated until the clause `until` is true, or until the RAM byte at address `change`
    changes."""
    reset: tuple[Any, ...] = (0, RESET, 4, 0, False, [], 0)
    chosen = [reset]
    rule = games()[game].get("modes")
    if rule:
        chosen += [(*press, [], 0) for press in rule.get("before", [])]
        if "menu" in rule:
            chosen += _menu(rule["menu"], mode)
        else:
            conditions = (
                rule["until"][str(mode)]
                if "until" in rule
                else [[rule["at"], [[mode + n] * 2 for n in rule["values"]]]]
            )
            chosen += [(0, SELECT, rule["select"], 1, False, _clause(conditions), 0)]
        chosen += [reset, *((*press, [], 0) for press in rule.get("after", []))]
    chosen += [reset]
    return chosen + [
        (action, switches, frames, 0, False, [], 0) for action, switches, frames in games()[game].get("start", [])
    ]


def _menu(rule: dict[str, Any], mode: int) -> list[tuple[Any, ...]]:
    """Return the joystick inputs that choose a mode in a menu, which has one yes/no line for each bit of the mode: for
    each line, DOWN to the line, and then LEFT for no or RIGHT for yes."""
    down: tuple[Any, ...] = (DOWN, 0, 1, 1, True, [], rule["line"])
    chosen = [down]
    for line, bit in enumerate(rule["bits"]):
        yes = mode >> line & 1
        accepted = [v for v in range(256) if bool(v & bit) == bool(yes)]
        answer = RIGHT if yes else LEFT
        chosen += [down, (answer, 0, 1, 1, True, [(rule["at"], accepted)], 0)]
    return chosen


def cartridge(game: str) -> int:
    return CARTRIDGES.index(games()[game]["cartridge"])


FIRE = 1
_WITH_FIRE = (FIRE, *range(10, 18))
_DIRECTIONS = ("UP", "RIGHT", "LEFT", "DOWN", "UPRIGHT", "UPLEFT", "DOWNRIGHT", "DOWNLEFT")
ACTION_MEANINGS = ("NOOP", "FIRE", *_DIRECTIONS, *(f"{direction}FIRE" for direction in _DIRECTIONS))


def action_codes(game: str, full_action_space: bool) -> list[int]:
    """Return the codes of the joystick actions that a game needs, or of all 18 if `full_action_space` is true."""
    if not full_action_space:
        return list(games()[game]["actions"])
    # ale-py omits the actions with FIRE in games that do not use FIRE, such as skiing.
    return [a for a in range(18) if not (games()[game].get("fire_is_noop") and a in _WITH_FIRE)]


def is_emulated(game: str, frame: str, mode: int | None) -> bool:
    """Return whether the emulator plays a mode of a game exactly as ale-py does, and supports the observations `frame`
    (one of `OBSERVATIONS`). `mode` None is the default mode of the game."""
    if game not in games() or games()[game].get("inexact"):
        return False
    return (mode is None or mode in modes(game)) and (frame == "104x80" or has_all_frames(game))


def has_all_frames(game: str) -> bool:
    """Return whether a game's screens have 210 rows, which observations other than 104x80 need."""
    return bool(games()[game]["height"] == SCREEN_ROWS)


def benchmark_games() -> list[str]:
    """Return the 57 games of the benchmark, which the device engine plays."""
    return list(games())[:BENCHMARK_GAMES]


def vector_games() -> list[str]:
    """Return the games that `VectorEnv` plays. The first 57 games are the benchmark games."""
    return [game for game in games() if is_emulated(game, "84x84", None)]


def check_game(game: str, names: Sequence[str]) -> None:
    """Raise ConfigError unless a game is one of `names`."""
    if game not in names:
        near = next(
            (f"; nearest: {name}" for name in names if camel_case(name) == bare_name(game)), nearest(game, names)
        )
        raise ConfigError(
            f"game={game!r}: must be one of the {len(names)} games such as 'ms_pacman'; for other games use"
            f" ale_py.vector_env.AtariVectorEnv{near}"
        )


def rom_path(game: str) -> Path:
    """Return the path of ale-py's ROM file of a game. Raises ConfigError."""
    package = find_spec("ale_py")  # The import of ale_py would import Gymnasium.
    assert package is not None and package.submodule_search_locations
    path = Path(package.submodule_search_locations[0]) / "roms" / f"{game}.bin"
    if not path.is_file():
        raise ConfigError(f"ale-py has no ROM for {game!r}")
    return path


def read_rom(game: str, path: str | os.PathLike[str] | None = None) -> bytes:
    """Return ale-py's ROM of a game, or the ROM in the file `path`, which must have the same size. If ale-py's ROM is
    not the one with which the emulator was tested, a message is printed once. Raises ConfigError."""
    installed = rom_path(game)
    return _checked_rom(game, installed) if path is None else _users_rom(path, installed.stat().st_size, game)


@functools.cache
def _checked_rom(game: str, installed: Path) -> bytes:
    rom = installed.read_bytes()
    if zlib.crc32(rom) != games()[game]["crc32"]:
        say_once(f"ale-py's ROM of {game} is not that of ale-py 0.12.1, with which the emulator was compared")
    return rom


def _users_rom(path: str | os.PathLike[str], size: int, game: str) -> bytes:
    file = Path(path).expanduser()
    try:
        got = file.stat().st_size
        if got != size:
            raise ConfigError(f"rom={str(path)!r} has {got:,} bytes: must have {size:,}, as the ROM of {game}")
        return file.read_bytes()
    except OSError as e:
        raise ConfigError(f"rom={str(path)!r} cannot be read: {e.strerror}") from e
