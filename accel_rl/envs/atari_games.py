"""Lists the Atari games, with published scores of random and human players."""

import json
import re
from functools import cache
from importlib.resources import files
from typing import Any

from accel_rl.system.errors import ConfigError, nearest

# 4 of ale-py's 108 games are left out: they need two players, and loadROM of ale-py 0.12.1 ends the process for them.
GAMES = tuple(
    """
    adventure air_raid alien amidar assault asterix asteroids atlantis atlantis2 backgammon bank_heist
    basic_math battle_zone beam_rider berzerk blackjack bowling boxing breakout carnival casino centipede
    chopper_command crazy_climber crossbow darkchambers defender demon_attack donkey_kong double_dunk
    earthworld elevator_action enduro entombed et fishing_derby flag_capture freeway frogger frostbite
    galaxian gopher gravitar hangman haunted_house hero human_cannonball ice_hockey jamesbond journey_escape
    kaboom kangaroo keystone_kapers king_kong klax koolaid krull kung_fu_master laser_gates lost_luggage
    mario_bros miniature_golf montezuma_revenge mr_do ms_pacman name_this_game othello pacman phoenix pitfall
    pitfall2 pong pooyan private_eye qbert riverraid road_runner robotank seaquest sir_lancelot skiing solaris
    space_invaders space_war star_gunner superman surround tennis tetris tic_tac_toe_3d time_pilot trondead
    turmoil tutankham up_n_down venture video_checkers video_chess video_cube video_pinball wizard_of_wor
    word_zapper yars_revenge zaxxon
    """.split()  # noqa: SIM905
)

# In these games, ale-py 0.12.1 restores some states inexactly.
# The games in INEXACT_RESTORE were found by restoring 40 states of each of the 104 games.
INEXACT_RESTORE = frozenset({"qbert", "tetris", "tic_tac_toe_3d"})

# ATARI_49 lists the games of Mnih et al. 2015, Extended Data Table 2.
ATARI_49 = tuple(
    """
    alien amidar assault asterix asteroids atlantis bank_heist battle_zone beam_rider bowling boxing breakout
    centipede chopper_command crazy_climber demon_attack double_dunk enduro fishing_derby freeway frostbite
    gopher gravitar hero ice_hockey jamesbond kangaroo krull kung_fu_master montezuma_revenge ms_pacman
    name_this_game pong private_eye qbert riverraid road_runner robotank seaquest space_invaders star_gunner
    tennis time_pilot tutankham up_n_down venture video_pinball wizard_of_wor zaxxon
    """.split()  # noqa: SIM905
)

# ATARI_57 lists the games of Wang et al. 2016 (dueling networks) and Hessel et al. 2018 (Rainbow).
ATARI_57 = tuple(
    sorted(
        (
            *ATARI_49,
            "berzerk",
            "defender",
            "phoenix",
            "pitfall",
            "skiing",
            "solaris",
            "surround",
            "yars_revenge",
        )
    )
)


def check_game(name: str) -> None:
    """Raise ConfigError, with the nearest names, unless ale-py has the game."""
    if name not in GAMES:
        raise ConfigError(
            f"game={name!r} is unknown: must be one of ale-py's {len(GAMES)} games"
            + (f"; nearest: {game}" if (game := game_of(name)) else nearest(name, GAMES))
        )


def game_of(id: str) -> str:
    """Return the ale-py name of the game that another library's id names, such as ms_pacman for ALE/MsPacman-v5,
    MsPacmanNoFrameskip-v4 or MsPacman. For other ids, return ""."""
    name = re.sub(r"^ALE/|(-ram)?(NoFrameskip|Deterministic)?-v[0-9]+$", "", id)
    return {game.replace("_", ""): game for game in GAMES}.get(name.replace("_", "").lower(), "")


def check_id(id: str) -> None:
    """Raise ConfigError for a Gymnasium id of an Atari game, because Gymnasium's environment would return large colour
    pictures."""
    if re.match(r"ALE/|\w+(NoFrameskip|Deterministic)-v[0-9]+$", id) and (game := game_of(id)):
        raise ConfigError(f"--env {id}: is an Atari game; use --game {game} (in Python game={game!r})")


@cache
def unclean_resets() -> frozenset[str]:
    """Return the games whose reset does not clear all state of the previous episode (see unclean_reset.json)."""
    return frozenset(json.loads(files("accel_rl.envs").joinpath("unclean_reset.json").read_text())["games"])


def unclean_reset(game: str, reset: str) -> str | None:
    """Return a text that states why the episodes of a game with --sampler.reset `reset` may differ from those with
    `immediate`, or None if they are equal."""
    if reset == "cached" and game in INEXACT_RESTORE:
        return f"ale-py restores a stored state of {game} inexactly"
    if reset in ("swap", "cached") and game in unclean_resets():
        return f"a reset of {game} keeps something of what was played before"
    return None


@cache
def scores(start: str = "null_op") -> dict[str, dict[str, float]]:
    """Return the raw scores of the players "random", "human", "dqn" and "gorila", as {game: {player: score}}. `start`
    is "null_op" or "human", the kind of start from which the scores were measured. The scores are from Nair et al.
    2015, arXiv:1507.04296, tables 3 and 4; scores.json names the sources used to check them."""
    tables: dict[str, Any] = json.loads(files("accel_rl.envs").joinpath("scores.json").read_text())
    if start not in ("null_op", "human"):
        raise ConfigError(f"start={start!r} is unknown: must be null_op or human")
    columns = tables["columns"]
    return {game: dict(zip(columns, row, strict=True)) for game, row in tables[start].items()}


def human_normalized(game: str, score: float, start: str = "null_op") -> float:
    """Return the human-normalized score in percent, 100 * (score - random) / (human - random). Raises ConfigError for a
    game without published scores. If the human score is below the random score (video_pinball from human starts), the
    formula is used unchanged."""
    table = scores(start)
    if game not in table:
        raise ConfigError(f"game={game!r} has no published scores: {len(table)} games have" + nearest(game, table))
    random, human = table[game]["random"], table[game]["human"]
    return 100.0 * (score - random) / (human - random)


def table() -> list[str]:
    """Return a table with one line per game: whether the game belongs to the 49 and the 57 benchmark games, and its
    published random and human scores (null-op starts)."""
    published = scores("null_op")
    lines = [f"{'game':<20} {'49':>3} {'57':>3} {'random':>10} {'human':>10}"]
    for game in GAMES:
        row = published.get(game, {})
        cells = "".join(f" {row[k]:>10,.1f}" if k in row else f" {'-':>10}" for k in ("random", "human"))
        in_49, in_57 = ("x" if game in names else "" for names in (ATARI_49, ATARI_57))
        lines.append(f"{game:<20} {in_49:>3} {in_57:>3}{cells}")
    lines.append(f"{len(GAMES)} games; scores from null-op starts: Nair et al. 2015, table 4")
    return lines
