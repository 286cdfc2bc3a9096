"""Tables 1 to 3 of Stooke & Abbeel 2018 for given runs, in the paper's layout, each cell next to the paper's."""

import math
import statistics as stats
from collections.abc import Mapping, Sequence

import numpy as np

from accel_rl.report import families
from accel_rl.report.comparison import Alike, alike, marked
from accel_rl.report.papers import (
    ASYNCHRONOUS,
    STOOKE_GPUS,
    Cell,
    papers,
    printed_hours,
    stooke_cell,
    stooke_differences,
    stooke_row,
)
from accel_rl.report.run import Run
from accel_rl.report.table import Pair, Table, number, paper_table

TITLE = "Stooke & Abbeel 2018, table {}"


def tables(runs: Sequence[Run]) -> list[Table]:
    """Build the tables that contain some of the runs."""
    found = [sampling_table(runs), hours_table(2, runs), hours_table(3, runs)]
    return [t for t in found if t is not None]


def sampling_rate(run: Run) -> float:
    """Return the median env steps/s of the rows after the first, which includes the start of the run.

    With fewer than three rows: env steps/s of the whole run. NaN before the first row.
    """
    rates = run.speeds[1]
    return float(np.median(rates[1:])) if len(rates) > 2 else run.steps_per_s


def sampling_table(runs: Sequence[Run]) -> Table | None:
    """Build table 1, from the runs that sample without learning."""
    rates: dict[tuple[int, str], list[float]] = {}
    for run in runs:
        envs, rate = families.total_envs(run.settings), sampling_rate(run)
        if families.samples_only(run.settings) and envs is not None and not math.isnan(rate):
            update = "async" if families.asynchronous(run.settings) else "sync"
            rates.setdefault((envs, update), []).append(rate / 1000)
    if not rates:
        return None
    printed = papers()["stooke2018"]["table_1"]
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
        f"{_ranks_of([r for r in runs if families.samples_only(r.settings)])}. The paper: {printed['unit']}; "
        f"{papers()['stooke2018']['machine']}."
    )
    return paper_table("stooke_table_1", TITLE.format(1), "simulators", printed["columns"], rows, note)


def hours_table(table: int, runs: Sequence[Run]) -> Table | None:
    """Build table 2 (policy gradients) or 3 (Q-learning): hours for 50 M env steps by algorithm and number of ranks."""
    timed = [r for r in runs if not math.isnan(r.hours)]
    cells: dict[Cell, list[Run]] = {}
    for run in timed:
        if (cell := stooke_cell(run.settings)) is not None and cell[0] == table:
            cells.setdefault(cell, []).append(run)
    if not cells:
        return None
    measured = {cell: alike(same, stooke_differences) for cell, same in cells.items()}
    printed = papers()["stooke2018"][f"table_{table}"]
    labels = list(printed["algorithms"])
    labels += [row + ASYNCHRONOUS for row in printed.get("asynchronous", ())]
    columns = sorted({*STOOKE_GPUS, *(n for _, _, n in cells)})
    rows = {label: [_pair((table, label, n), measured) for n in columns] for label in labels}
    left_out = sorted(
        {r.setting for r in timed if (stooke_row(r.settings) or (0,))[0] == table and stooke_cell(r.settings) is None}
    )
    machine = papers()["stooke2018"]["machine"]
    note = f"Own: by ranks, mean over runs, evaluations included. The paper: {printed['unit']}; {machine}."
    if left_out:
        note += f" Left out, as the paper has other numbers of environments per rank: {', '.join(left_out)}."
    note += marked(measured.values(), stooke_differences)
    titles = [f"{n} rank" + "s" * (n > 1) for n in columns]
    return paper_table(f"stooke_table_{table}", TITLE.format(table), "algorithm", titles, rows, note)


def _pair(cell: Cell, measured: Mapping[Cell, Alike]) -> Pair:
    printed = printed_hours(cell)
    same = measured.get(cell)
    own = _mean([r.hours for r in same.runs], 2) + same.mark if same else ""
    return own, "-" if printed is None else str(printed)


def _mean(values: Sequence[float] | None, digits: int) -> str:
    return number(stats.mean(values), digits) if values else ""


def _ranks_of(runs: Sequence[Run]) -> str:
    counts = sorted({families.ranks(r.settings) for r in runs})
    return f" of {', '.join(map(str, counts))} ranks"
