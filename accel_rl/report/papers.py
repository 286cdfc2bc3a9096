"""Published results: scores in 49 games, and times."""

import json
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import Any

from accel_rl.envs.games import ATARI_49, scores
from accel_rl.report.table import Table, number

# of one GPU and 5 cores: (algorithm, batch) -> table and row; any batch for the policy gradients
STOOKE_ROWS = {("a2c", None): ("2", "A2C"), ("ppo", None): ("2", "PPO"), ("dqn", 512): ("3", "DQN-512")} | {
    ("rainbow", 512): ("3", "epsilon-Rainbow-512"),
    ("c51", 2_048): ("3", "Categorical-DQN-2048"),
}


@cache
def papers() -> dict[str, Any]:
    """papers.json: tables of Daley & Amato 2021 and Stooke & Abbeel 2018, as printed."""
    return dict(json.loads(files("accel_rl.report").joinpath("papers.json").read_text()))


def published(game: str) -> dict[str, float]:
    """{"random", "human", "dqn", "gorila", "daley"}: raw scores from null-op starts; {} for a game that is not one of
    the 49. The first four: Nair et al. 2015, table 4; the last: Daley & Amato 2021, table 4."""
    if game not in scores():
        return {}
    row = papers()["daley2021"]["table_4"]["games"][game]
    return {**scores()[game], "daley": row[4]}


def percent(game: str, score: float) -> float:
    """100 (score - random) / (human - random)."""
    row = published(game)
    return 100 * (score - row["random"]) / (row["human"] - row["random"])


def stooke_hours(settings: Mapping[str, Any]) -> float | None:
    """Hours for 50 M env steps with one GPU and 5 cores (Stooke & Abbeel 2018, tables 2 and 3) of a run's settings,
    {"algo.batch_size": 512, ...}; None for others than theirs."""
    row = STOOKE_ROWS.get((settings.get("algorithm", ""), settings.get("algo.batch_size")))
    return float(papers()["stooke2018"][f"table_{row[0]}"]["algorithms"][row[1]][0]) if row else None


def daley_hours(settings: Mapping[str, Any]) -> float | None:
    """Hours for 50 M env steps on a desktop (Daley & Amato 2021, table 1) of a run's settings; None for others."""
    unsynchronized = bool(settings.get("sampler.unsynchronized"))
    theirs = settings.get("algorithm") == "dqn" and settings.get("algo.batch_size") == 32
    cells = papers()["daley2021"]["table_1"]["threads"].get(str(settings.get("sampler.envs")))
    if not theirs or cells is None or not (unsynchronized or settings.get("sampler.groups") == 1):
        return None
    alone = len([c for c in cells if c is not None]) == 2  # one environment: synchronized or not is the same
    column = (settings.get("schedule") == "concurrent") + 2 * (not unsynchronized and not alone)
    return float(cells[column][0])


def table_of_49() -> Table:
    """Random, Human, DQN, Gorila and Daley & Amato in the 49 games, raw and in percent between random and human."""
    names = ("random", "human", "dqn", "gorila", "daley")
    rows = []
    for game in ATARI_49:
        row = published(game)
        printed = papers()["daley2021"]["table_4"]["games"][game][7]
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


def tables_of_times() -> list[Table]:
    """What the papers print of speed."""
    daley, stooke = papers()["daley2021"], papers()["stooke2018"]
    names = ["threads", *daley["table_1"]["columns"]]
    found = [
        Table(
            "daley_table_1",
            "Daley & Amato 2021, table 1",
            names,
            [
                [threads, *("-" if c is None else f"{c[0]:.2f} +- {c[1]:.2f}" for c in cells)]
                for threads, cells in daley["table_1"]["threads"].items()
            ],
            f"{daley['table_1']['unit']}; {daley['table_1']['machine']}",
        )
    ]
    for i, digits in ((2, 1), (3, 2)):
        t = daley[f"table_{i}"]
        rows = [
            [threads, *("-" if c is None else number(c, digits) for c in cells)]
            for threads, cells in t["threads"].items()
        ]
        found.append(Table(f"daley_table_{i}", f"Daley & Amato 2021, table {i}", names, rows, t["unit"]))
    for i, by in ((1, "simulators"), (2, "algorithms"), (3, "algorithms")):
        t = stooke[f"table_{i}"]
        rows = [[name, *("-" if c is None else str(c) for c in cells)] for name, cells in t[by].items()]
        title = f"Stooke & Abbeel 2018, table {i}"
        found.append(Table(f"stooke_table_{i}", title, [by, *t["columns"]], rows, f"{t['unit']}; {stooke['machine']}"))
    return found
