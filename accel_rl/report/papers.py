"""Published results: scores in 49 games, and times."""

import json
from functools import cache
from importlib.resources import files
from typing import Any

from accel_rl.envs.games import ATARI_49, scores
from accel_rl.report.families import (
    Settings,
    asynchronous,
    family,
    is_policy_gradient,
    plays_atari,
    ranks,
    total_envs,
)
from accel_rl.report.fingerprint import differences, wanted
from accel_rl.report.table import Table, number

ENVS_PER_GPU = {"A2C": 16, "A3C": 16, "PPO": 8, "APPO": 8}  # table 2's caption
BATCH_ROWS = {("dqn", 512): "DQN-512", ("rainbow", 512): "epsilon-Rainbow-512", ("c51", 2_048): "Categorical-DQN-2048"}
STOOKE_GPUS = (1, 2, 4, 8)  # columns of tables 2 and 3
ASYNCHRONOUS = ", asynchronous"  # ends the name of table 3's starred cell
MNIH = "mnih2015"  # the protocol of Daley & Amato
Cell = tuple[int, str, int]  # of Stooke & Abbeel's tables: table, row, ranks


@cache
def papers() -> dict[str, Any]:
    """Read papers.json: tables of Daley & Amato 2021 and Stooke & Abbeel 2018, as printed."""
    return dict(json.loads(files("accel_rl.report").joinpath("papers.json").read_text()))


def published(game: str) -> dict[str, float]:
    """Return the raw scores {"random", "human", "dqn", "gorila", "daley"} from null-op starts; {} outside the 49 games.

    Sources: Nair et al. 2015, table 4; for daley: Daley & Amato 2021, table 4.
    """
    if game not in scores():
        return {}
    row = papers()["daley2021"]["table_4"]["games"][game]
    return {**scores()[game], "daley": row[4]}


def rule_differences(settings: Settings) -> list[str]:
    """Return the Atari rules by which a run is evaluated and the published null-op scores are not."""
    return differences(settings, wanted("mnih2015", "null_op")) if plays_atari(settings) else []


def percent(game: str, score: float) -> float:
    """Return the human-normalised score 100 (score - random) / (human - random)."""
    row = published(game)
    return percent_of(score, row["random"], row["human"])


def percent_of(score: float, random: float, human: float) -> float:
    return 100 * (score - random) / (human - random)


def stooke_row(settings: Settings) -> tuple[int, str] | None:
    """Return (table, row) of Stooke & Abbeel 2018 for a run's algorithm, batch size, game and update mode."""
    if not plays_atari(settings) or settings.get("secondary.batch"):
        return None
    if is_policy_gradient(settings):
        return 2, family(settings)
    row = BATCH_ROWS.get((str(settings.get("algorithm")), settings.get("algo.batch_size")))  # type: ignore[arg-type]
    if row is None or not asynchronous(settings):
        return (3, row) if row else None
    return (3, row + ASYNCHRONOUS) if row in papers()["stooke2018"]["table_3"]["asynchronous"] else None


def stooke_cell(settings: Settings) -> Cell | None:
    """Return the cell of tables 2 and 3 that a run of these settings measures, whether printed or not.

    None for other runs, such as runs with another number of environments per rank.
    """
    if (row := stooke_row(settings)) is None:
        return None
    n, envs = ranks(settings), total_envs(settings)
    if row[0] == 2 and envs not in (None, ENVS_PER_GPU[row[1]] * n):
        return None
    return *row, n


def stooke_differences(settings: Settings) -> list[str]:
    """Return the settings in which a run differs from those of its cell in Stooke & Abbeel's tables 2 and 3."""
    if (cell := stooke_cell(settings)) is None:
        return []
    table, row, learners = cell
    name = row.removesuffix(ASYNCHRONOUS)
    names = ("all", name) if table == 2 else ("all", "Q-learning", name)
    return differences(settings, {"learners": learners, **wanted("stooke2018", *names)})


def printed_hours(cell: Cell) -> float | None:
    """Return the printed value of a cell of Stooke & Abbeel's tables; None if it is not printed."""
    table, row, n = cell
    rows = papers()["stooke2018"][f"table_{table}"]
    cells = rows["asynchronous"][row.removesuffix(ASYNCHRONOUS)] if row.endswith(ASYNCHRONOUS) else None
    cells = cells or rows["algorithms"][row]
    return cells[STOOKE_GPUS.index(n)] if n in STOOKE_GPUS else None


def stooke_hours(settings: Settings) -> float | None:
    """Return the hours for 50 M env steps of a run's settings in tables 2 and 3 of Stooke & Abbeel 2018.

    A rank there has one GPU and 5 cores. None if the tables have no such cell.
    """
    cell = stooke_cell(settings)
    return printed_hours(cell) if cell else None


def daley_cell(settings: Settings) -> tuple[str, str] | None:
    """Return (threads, variant) of a run's cell in tables 1 to 3 of Daley & Amato; None for other runs."""
    printed = papers()["daley2021"]["table_1"]
    per_worker = bool(settings.get("sampler.inference_per_worker"))
    threads = str(settings.get("sampler.envs"))
    theirs = is_daleys_dqn(settings) and threads in printed["threads"]
    if not theirs or not (per_worker or settings.get("sampler.groups") == 1):
        return None
    alone = None in printed["threads"][threads]  # with one environment there is nothing to synchronize
    column = (settings.get("schedule") == "concurrent") + 2 * (not per_worker and not alone)
    return threads, printed["columns"][column]


def daley_differences(settings: Settings) -> list[str]:
    """Return the settings in which a run differs from those of its cell in tables 1 to 3 of Daley & Amato."""
    if (cell := daley_cell(settings)) is None:
        return []
    workers = {"sampler.workers": int(cell[0])} if settings.get("sampler.workers") else {}
    return differences(settings, {"learners": 1, **workers, **wanted("daley2021", "hours")})


def daley_score_differences(settings: Settings) -> list[str]:
    """Return the settings in which a run differs from those of table 4 of Daley & Amato, the fastest variant."""
    return differences(settings, {"learners": 1, **wanted("daley2021", "hours", "scores")})


def daley_name(settings: Settings) -> str:
    """Name a run that measures a cell with the paper's settings: DQN-8threads-both; "" for other runs."""
    cell = daley_cell(settings)
    return f"DQN-{cell[0]}threads-{cell[1]}" if cell and not daley_differences(settings) else ""


def is_daleys_dqn(settings: Settings) -> bool:
    """Whether a run is DQN on one game and one rank with a batch of 32 (Daley & Amato, table 5)."""
    one_rank = ranks(settings) == 1 and not asynchronous(settings) and not settings.get("secondary.batch")
    dqn = settings.get("algorithm") == "dqn" and settings.get("algo.batch_size") == 32
    return dqn and one_rank and plays_atari(settings)


def daley_hours(settings: Settings) -> float | None:
    """Return the hours for 50 M env steps of a run's settings in table 1 of Daley & Amato 2021; None for other runs."""
    if (cell := daley_cell(settings)) is None:
        return None
    printed = papers()["daley2021"]["table_1"]
    return float(printed["threads"][cell[0]][printed["columns"].index(cell[1])][0])


def table_of_49() -> Table:
    """Build the table of published scores in the 49 games, raw and human-normalised."""
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
    """Build the tables of published speeds."""
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
