"""The Atari games, with published scores of random and human players."""

import json
import re
from collections.abc import Iterable
from functools import cache
from importlib.resources import files
from typing import Any

from accel_rl.text.errors import ConfigError, nearest

# 4 of ale-py's 108 games are left out: games for two players, for which loadROM of ale-py 0.12.1 ends the process.
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

# Games of which ale-py 0.12.1 restores some states inexactly, found by restoring 40 states of each of ale-py's 104
# games.
INEXACT_RESTORE = frozenset({"qbert", "tetris", "tic_tac_toe_3d"})

# The 49 games of Mnih et al. 2015, Extended Data Table 2
ATARI_49 = tuple(
    """
    alien amidar assault asterix asteroids atlantis bank_heist battle_zone beam_rider bowling boxing breakout
    centipede chopper_command crazy_climber demon_attack double_dunk enduro fishing_derby freeway frostbite
    gopher gravitar hero ice_hockey jamesbond kangaroo krull kung_fu_master montezuma_revenge ms_pacman
    name_this_game pong private_eye qbert riverraid road_runner robotank seaquest space_invaders star_gunner
    tennis time_pilot tutankham up_n_down venture video_pinball wizard_of_wor zaxxon
    """.split()  # noqa: SIM905
)

# The 57 games of Wang et al. 2016 (dueling networks) and Hessel et al. 2018 (Rainbow)
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


# Aitchison, Sweetser & Hutter 2023, Atari-5, arXiv:2210.02019.
# ATARI_5 and ATARI_10 are the sets of five and of ten games whose scores best predict the median score over 57 games.
ATARI_5 = ("battle_zone", "double_dunk", "name_this_game", "phoenix", "qbert")
ATARI_10 = tuple(sorted((*ATARI_5, "amidar", "bowling", "frostbite", "kung_fu_master", "riverraid")))

# The 26 games of Atari-100k (Kaiser et al. 2020, SimPLe, arXiv:1903.00374)
ATARI_26 = tuple(
    """
    alien amidar assault asterix bank_heist battle_zone boxing breakout chopper_command crazy_climber demon_attack
    freeway frostbite gopher hero jamesbond kangaroo krull kung_fu_master ms_pacman pong private_eye qbert
    road_runner seaquest up_n_down
    """.split()  # noqa: SIM905
)

GAME_LISTS = {"atari5": ATARI_5, "atari10": ATARI_10, "atari26": ATARI_26, "atari49": ATARI_49, "atari57": ATARI_57}

HUMAN_SCALES = ("wang2016", "nair2015")
"""`wang2016`: random and human scores of 57 games, which papers have used since Wang et al. 2016. `nair2015`: scores of
49 games from Nair et al. 2015, whose human scores are those of Mnih et al. 2015."""
OF_HUMAN = {"wang2016": "% of human (57 games)", "nair2015": "% of human (49 games)"}
"""Column titles for scores that are normalized by a scale."""


def check_game(name: str) -> None:
    """Raise ConfigError, with the nearest names, unless ale-py has the game."""
    if name not in GAMES:
        raise ConfigError(
            f"game={name!r} is unknown: must be one of ale-py's {len(GAMES)} games"
            + (f"; nearest: {game}" if (game := game_of(name)) else nearest(name, GAMES))
        )


def named_games(names: Iterable[str]) -> tuple[str, ...]:
    """Replace names of GAME_LISTS by their games, and return each game once. Raises ConfigError for an unknown name."""
    result: dict[str, None] = {}
    for name in names:
        if name not in GAME_LISTS and name not in GAMES:
            raise ConfigError(
                f"{name!r} is neither a game nor a list of games ({', '.join(GAME_LISTS)})"
                + (f"; nearest: {game}" if (game := game_of(name)) else nearest(name, [*GAME_LISTS, *GAMES]))
            )
        result.update(dict.fromkeys(GAME_LISTS.get(name, (name,))))
    return tuple(result)


def game_of(id: str) -> str:
    """Return ale-py's name of a game from another library's id, such as ms_pacman from ALE/MsPacman-v5,
    MsPacmanNoFrameskip-v4 or MsPacman, or "" if the id is of no Atari game."""
    name = re.sub(r"^(ALE|accel_rl)/|(-ram)?(NoFrameskip|Deterministic)?-v[0-9]+$", "", id)
    return {game.replace("_", ""): game for game in GAMES}.get(name.replace("_", "").lower(), "")


def check_id(id: str) -> None:
    """Raise ConfigError for a Gymnasium id of an Atari game, because ale-py's environment returns large colour
    pictures."""
    if re.match(r"(ALE|accel_rl)/|\w+(NoFrameskip|Deterministic)-v[0-9]+$", id) and (game := game_of(id)):
        raise ConfigError(f"--env {id}: is an Atari game; use --game {game} (in Python game={game!r})")


@cache
def unclean_resets() -> frozenset[str]:
    """The games whose reset does not clear all state of the previous episode (see unclean_reset.json)."""
    return frozenset(json.loads(files("accel_rl.envs").joinpath("unclean_reset.json").read_text())["games"])


def unclean_reset(game: str, reset: str) -> str | None:
    """Return why a game's episodes with --sampler.reset `reset` may differ from those with `immediate`, or None if they
    are the same."""
    if reset == "cached" and game in INEXACT_RESTORE:
        return f"ale-py restores a stored state of {game} inexactly"
    if reset in ("swap", "cached") and game in unclean_resets():
        return f"a reset of {game} keeps something of what was played before"
    return None


@cache
def scores(start: str = "null_op") -> dict[str, dict[str, float]]:
    """Return {game: {player: raw score}} for the players "random", "human", "dqn" and "gorila". `start` is how the
    scored episodes began: "null_op" or "human". The scores are from Nair et al. 2015, arXiv:1507.04296, tables 3 and 4;
    scores.json names the sources used to check them."""
    tables: dict[str, Any] = json.loads(files("accel_rl.envs").joinpath("scores.json").read_text())
    if start not in ("null_op", "human"):
        raise ConfigError(f"start={start!r} is unknown: must be null_op or human")
    columns = tables["columns"]
    return {game: dict(zip(columns, row, strict=True)) for game, row in tables[start].items()}


@cache
def human_scale(game: str, scale: str = "wang2016") -> tuple[float, float] | None:
    """Return (random score, human score) with null-op starts from one of HUMAN_SCALES, or None if the scale does not
    include the game. Sources: human_scores.json and scores.json. Raises ConfigError for an unknown scale."""
    if scale not in HUMAN_SCALES:
        raise ConfigError(f"scale={scale!r} is unknown: must be {' or '.join(HUMAN_SCALES)}")
    if scale == "nair2015":
        row = scores("null_op").get(game)
        return (row["random"], row["human"]) if row else None
    pair = _scores_of_57().get(game)
    return (pair[0], pair[1]) if pair else None


@cache
def _scores_of_57() -> dict[str, list[float]]:
    return dict(json.loads(files("accel_rl.envs").joinpath("human_scores.json").read_text())["games"])


def human_normalized(game: str, score: float, scale: str = "wang2016", start: str = "null_op") -> float:
    """Return the human-normalized score in percent: 100 * (score - random) / (human - random). `scale` is one of
    HUMAN_SCALES. `start` is how episodes begin: "null_op" or, only with the scale nair2015, "human". Raises ConfigError
    for a game without published scores. The formula is also used if the human score is below the random score
    (video_pinball of nair2015 with human starts)."""
    if start == "null_op":
        pair = human_scale(game, scale)
    elif scale == "nair2015":
        row = scores(start).get(game)
        pair = (row["random"], row["human"]) if row else None
    else:
        raise ConfigError(f"start={start!r}: the scale {scale} has only scores from null-op starts")
    if pair is None:
        games = ATARI_57 if scale == "wang2016" else ATARI_49
        raise ConfigError(f"game={game!r} has no published scores: {len(games)} games have" + nearest(game, games))
    random, human = pair
    return 100.0 * (score - random) / (human - random)


def table() -> list[str]:
    """Return one line per game: which lists of GAME_LISTS contain it, and its published random and human scores in each
    of HUMAN_SCALES."""
    heads = [name.removeprefix("atari") for name in GAME_LISTS]
    lines = [
        f"{'game':<20}" + "".join(f" {head:>2}" for head in heads) + f" {'random':>10} {'human':>10} {'human 2015':>11}"
    ]
    for game in GAMES:
        random, human = human_scale(game) or (None, None)
        _, human_2015 = human_scale(game, "nair2015") or (None, None)
        marks = "".join(f" {'x' if game in games else '':>2}" for games in GAME_LISTS.values())
        columns = ((random, 10), (human, 10), (human_2015, 11))
        cells = "".join(f" {'-' if x is None else f'{x:,.1f}':>{width}}" for x, width in columns)
        lines.append(f"{game:<20}{marks}{cells}")
    lines += [
        f"{len(GAMES)} games; scores from null-op starts",
        "random, human: of the 57 games since Wang et al. 2016; human 2015: Nair et al. 2015, table 4, of 49 games",
        f"5 to 57: the lists {', '.join(GAME_LISTS)}, for sweep --only game=atari5 and report --games atari5",
    ]
    return lines
