"""The published numbers and settings of each paper, and the published scores in 49 games."""

import json
from functools import cache
from importlib.resources import files
from typing import Any

from accel_rl.envs.atari_games import ATARI_49, scores
from accel_rl.results.run_settings import Settings, differences, plays_atari
from accel_rl.results.table import Table, number


@cache
def published_by(paper: str) -> dict[str, Any]:
    """The printed tables, and the settings of the tables' runs, in a paper's published.json."""
    return dict(json.loads((files("accel_rl.papers") / paper / "published.json").read_text()))


def wanted(paper: str, *names: str) -> dict[str, Any]:
    """{setting: value} of the runs in the rows, columns or tables `names` of a paper. A value may be a list of
    equivalent values."""
    result = published_by(paper)["settings"]
    return {setting: value for name in names for setting, value in result[name].items()}


def published(game: str) -> dict[str, float]:
    """A game's published raw scores from null-op starts, under the keys random, human, dqn, gorila and daley. For a
    game outside the 49 games, return {}. The scores are from Nair et al. 2015, table 4, except daley, which is from
    Daley & Amato 2021, table 4."""
    if game not in scores():
        return {}
    row = published_by("daley")["table_4"]["games"][game]
    return {**scores()[game], "daley": row[4]}


def rule_differences(settings: Settings) -> list[str]:
    """The Atari rules of a run's evaluation that differ from those of the published null-op scores."""
    return (
        differences(settings, published_by("gorila")["settings of Mnih et al. 2015"]["null_op"])
        if plays_atari(settings)
        else []
    )


def percent(game: str, score: float) -> float:
    """100 (score - random) / (human - random)"""
    row = published(game)
    return percent_of(score, row["random"], row["human"])


def percent_of(score: float, random: float, human: float) -> float:
    return 100 * (score - random) / (human - random)


def table_of_49() -> Table:
    names = ("random", "human", "dqn", "gorila", "daley")
    rows = []
    for game in ATARI_49:
        row = published(game)
        printed = published_by("daley")["table_4"]["games"][game][7]
        percents = [percent(game, row["dqn"]), percent(game, row["gorila"]), printed]
        rows.append([game, *(number(row[n]) for n in names), *(number(p, 1) for p in percents)])
    return Table(
        "published_49",
        "Published scores in the 49 games",
        ["game", "Random", "Human", "DQN", "Gorila", "Daley & Amato", "DQN %", "Gorila %", "Daley & Amato %"],
        rows,
        "Null-op starts. Random, Human, DQN (Mnih et al. 2015) and Gorila: Nair et al. 2015, table 4; Daley & Amato: "
        "their table 4, percent as printed there. Percent: 100 (score - random) / (human - random).",
    )
