"""Tables 1 to 3 of Stooke & Abbeel 2018 for given runs, next to the paper's numbers."""

import math
import statistics as stats
from collections.abc import Mapping, Sequence

import numpy as np

from accel_rl.papers.paper import Paper
from accel_rl.papers.published import published_by, wanted
from accel_rl.results import run_settings
from accel_rl.results.run_settings import (
    Settings,
    asynchronous,
    differences,
    family,
    is_policy_gradient,
    plays_atari,
    ranks,
    total_envs,
)
from accel_rl.results.section import Section
from accel_rl.results.table import Alike, Pair, Table, alike, marked, number, paper_table
from accel_rl.results.trained_run import TrainedRun
from accel_rl.settings.registry import experiment_of

# Environments per GPU, from the caption of table 2
ENVS_PER_GPU = {"A2C": 16, "A3C": 16, "PPO": 8, "APPO": 8}
BATCH_ROWS = {("dqn", 512): "DQN-512", ("rainbow", 512): "epsilon-Rainbow-512", ("c51", 2_048): "Categorical-DQN-2048"}
STOOKE_GPUS = (1, 2, 4, 8)  # Tables 2 and 3 have columns for 1, 2, 4 and 8 GPUs.
ASYNCHRONOUS = ", asynchronous"  # The suffix of the row that has a star in table 3
Cell = tuple[int, str, int]  # (table, row, ranks) of a number in the paper
TITLE = "Stooke & Abbeel 2018, table {}"


def tables(runs: Sequence[TrainedRun]) -> list[Table]:
    """The tables among tables 1 to 3 to which at least one of the runs belongs."""
    result = [sampling_table(runs), hours_table(2, runs), hours_table(3, runs)]
    return [t for t in result if t is not None]


def sampling_rate(run: TrainedRun) -> float:
    """Return the median env steps/s of a run's rows of metrics, without the first row. If the run has fewer than three
    rows, return the env steps/s of the whole run, or NaN without rows."""
    rates = run.speeds[1]
    return float(np.median(rates[1:])) if len(rates) > 2 else run.steps_per_s


def sampling_table(runs: Sequence[TrainedRun]) -> Table | None:
    """Table 1, from the runs that sample without learning."""
    rates: dict[tuple[int, str], list[float]] = {}
    for run in runs:
        envs, rate = run_settings.total_envs(run.settings), sampling_rate(run)
        if run_settings.samples_only(run.settings) and envs is not None and not math.isnan(rate):
            update = "async" if run_settings.asynchronous(run.settings) else "sync"
            rates.setdefault((envs, update), []).append(rate / 1000)
    if not rates:
        return None
    printed = published_by("stooke")["table_1"]
    theirs = {int(label.split()[0]): cells for label, cells in printed["simulators"].items()}
    rows: dict[str, list[Pair]] = {}
    for envs in sorted({*theirs, *(n for n, _ in rates)}):
        cells = theirs.get(envs, [None, None])
        rows[str(envs)] = [
            (_mean(rates.get((envs, update)), 1), number(cell, 1) or "-")
            for update, cell in zip(printed["columns"], cells, strict=True)
        ]
    note = (
        "Thousand env steps/s by total number of simulators. sync: all ranks wait for each other after every horizon; "
        "async: each rank samples independently. Own: median of a run's rows after the first, mean over runs"
        f"{_ranks_of([r for r in runs if run_settings.samples_only(r.settings)])}. The paper: {printed['unit']}; "
        f"{published_by('stooke')['machine']}."
    )
    return paper_table("stooke_table_1", TITLE.format(1), "simulators", printed["columns"], rows, note)


def hours_table(table: int, runs: Sequence[TrainedRun]) -> Table | None:
    """Table 2 (policy gradients) or 3 (Q-learning): the hours for 50 M env steps, for each algorithm and number of
    ranks."""
    timed = [r for r in runs if not math.isnan(r.hours)]
    cells: dict[Cell, list[TrainedRun]] = {}
    for run in timed:
        if (cell := stooke_cell(run.settings)) is not None and cell[0] == table:
            cells.setdefault(cell, []).append(run)
    if not cells:
        return None
    measured = {cell: alike(same, stooke_differences) for cell, same in cells.items()}
    printed = published_by("stooke")[f"table_{table}"]
    labels = list(printed["algorithms"])
    labels += [row + ASYNCHRONOUS for row in printed.get("asynchronous", ())]
    columns = sorted({*STOOKE_GPUS, *(n for _, _, n in cells)})
    rows = {label: [_pair((table, label, n), measured) for n in columns] for label in labels}
    left_out = sorted(
        {r.setting for r in timed if (stooke_row(r.settings) or (0,))[0] == table and stooke_cell(r.settings) is None}
    )
    machine = published_by("stooke")["machine"]
    note = f"Own: by ranks, mean over runs, evaluations included. The paper: {printed['unit']}; {machine}."
    if left_out:
        note += f" Left out, as the paper has other numbers of environments per rank: {', '.join(left_out)}."
    note += marked(measured.values(), stooke_differences)
    titles = [f"{n} rank" + "s" * (n > 1) for n in columns]
    return paper_table(f"stooke_table_{table}", TITLE.format(table), "algorithm", titles, rows, note)


def _pair(cell: Cell, measured: Mapping[Cell, Alike]) -> Pair:
    printed = printed_hours(cell)
    same = measured.get(cell)
    hours = _mean([r.hours for r in same.runs], 2) + same.mark if same else ""
    return hours, "-" if printed is None else str(printed)


def _mean(values: Sequence[float] | None, digits: int) -> str:
    return number(stats.mean(values), digits) if values else ""


def _ranks_of(runs: Sequence[TrainedRun]) -> str:
    counts = sorted({run_settings.ranks(r.settings) for r in runs})
    return f" of {', '.join(map(str, counts))} ranks"


def stooke_row(settings: Settings) -> tuple[int, str] | None:
    """(table, row) for a run's algorithm, batch size, game and update mode."""
    if not plays_atari(settings) or settings.get("secondary.batch"):
        return None
    if is_policy_gradient(settings):
        return 2, family(settings)
    row = BATCH_ROWS.get((str(settings.get("algorithm")), settings.get("algo.batch_size")))  # type: ignore[arg-type]
    if row is None or not asynchronous(settings):
        return (3, row) if row else None
    return (3, row + ASYNCHRONOUS) if row in published_by("stooke")["table_3"]["asynchronous"] else None


def stooke_cell(settings: Settings) -> Cell | None:
    """A run's cell of tables 2 and 3, even if the cell is empty in the paper. Return None for other runs, such as runs
    with another number of environments per rank."""
    if (row := stooke_row(settings)) is None:
        return None
    n, envs = ranks(settings), total_envs(settings)
    if row[0] == 2 and envs not in (None, ENVS_PER_GPU[row[1]] * n):
        return None
    return *row, n


def stooke_differences(settings: Settings) -> list[str]:
    """Settings in which a run differs from the paper's runs in the same cell of tables 2 and 3."""
    if (cell := stooke_cell(settings)) is None:
        return []
    table, row, learners = cell
    name = row.removesuffix(ASYNCHRONOUS)
    names = ("all", name) if table == 2 else ("all", "Q-learning", name)
    return differences(settings, {"learners": learners, **wanted("stooke", *names)})


def printed_hours(cell: Cell) -> float | None:
    """The hours in a cell of the paper's tables, or None if the cell is empty."""
    table, row, n = cell
    rows = published_by("stooke")[f"table_{table}"]
    cells = rows["asynchronous"][row.removesuffix(ASYNCHRONOUS)] if row.endswith(ASYNCHRONOUS) else None
    cells = cells or rows["algorithms"][row]
    return cells[STOOKE_GPUS.index(n)] if n in STOOKE_GPUS else None


def stooke_hours(settings: Settings) -> float | None:
    """The hours for 50 M env steps in tables 2 and 3 of Stooke & Abbeel 2018, with one GPU and 5 cores per rank, or
    None if the tables have no such cell."""
    cell = stooke_cell(settings)
    return printed_hours(cell) if cell else None


def published_tables() -> list[Table]:
    """Tables 1 to 3 with only the numbers in the paper."""
    paper = published_by("stooke")
    result = []
    for i, by in ((1, "simulators"), (2, "algorithms"), (3, "algorithms")):
        t = paper[f"table_{i}"]
        rows = [[name, *("-" if c is None else str(c) for c in cells)] for name, cells in t[by].items()]
        note = f"{t['unit']}; {paper['machine']}"
        result.append(Table(f"stooke_table_{i}", TITLE.format(i), [by, *t["columns"]], rows, note))
    return result


def stooke_figures(experiment: str) -> list[str]:
    """The figures that an experiment reproduces, such as ["3"] for stooke:figure_3."""
    function = experiment_of("stooke", experiment)
    return [n for n, figure in published_by("stooke")["figures"].items() if function in figure["experiments"]]


def shown_figures(runs: Sequence[TrainedRun]) -> list[str]:
    """The figures that the given runs reproduce, in the paper's order."""
    result = {n for r in runs for n in stooke_figures(r.experiment)}
    return sorted(result, key=int)


def claims(figures: Sequence[str]) -> list[str]:
    printed = published_by("stooke")["figures"]
    return [f"Stooke & Abbeel, figure {n}: {claim}" for n in figures for claim in printed[n]["claims"]]


def title(figures: Sequence[str]) -> str:
    printed = published_by("stooke")["figures"]
    return "Stooke & Abbeel 2018, " + "; ".join(f"figure {n}: {printed[n]['title']}" for n in figures)


PAPER = Paper(
    "Stooke & Abbeel",
    2018,
    lambda runs, settings: list(map(Section.of, tables(runs))),
    published_tables,
    stooke_hours,
    "the cell of their tables 2 and 3 with the same algorithm, batch size, update mode and number of ranks (a P100 and "
    "5 cores each), for Atari; policy gradients with 16 (A2C, A3C) or 8 environments per rank (PPO, APPO)",
    stooke_differences,
)
