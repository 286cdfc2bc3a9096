"""The tables of `benchmarks.scaling`, in the layout of Stooke & Abbeel 2018."""

import statistics
from typing import Any

from accel_rl.system import hardware
from benchmarks.scaling_settings import RUNS, STEPS, Options


def report(o: Options, result: dict[str, Any]) -> list[str]:
    medians = {}
    for case, found in result["results"].items():
        table, row, column = case.split("/")
        ended = [m for m in found if "failed" not in m]
        medians[int(table), row, column] = (
            {k: statistics.median(m[k] for m in ended) for k in ended[0]} if ended else {}
        )
    lines: list[str] = []
    cores = len(hardware.usable_cores())
    for table in o.tables:
        mine = {(row, column): m for (t, row, column), m in medians.items() if t == table}
        if table == 1:
            lines.append(f"Table 1, {max(o.ranks)} ranks on {cores} cores, thousands of samples/s")
            lines.append("| # SIMS (PER CORE) | SYNC | ASYNC |")
            for n in o.simulators:
                rates = [mine[str(n), c].get("steps_per_s") for c in ("sync", "async")]
                cells = ["did not end" if r is None else f"{r / 1e3:.1f}" for r in rates]
                lines.append(f"| {n} ({n / cores:g}) | {' | '.join(cells)} |")
            continue
        what = "# GPU" if o.gpus else "ranks"
        lines.append(
            f"Table {table}, hours to complete 50 million steps (env steps/s; sync, of it lock wait, % of time)"
            + (f", past a replay's start of {o.fill:,} steps" if table == 3 else "")
        )
        lines.append(f"| ALGORITHM | {' | '.join(f'{r} {what} ({cores} CPU)' for r in o.ranks)} |")
        for name in RUNS[table]:
            cells = [cell(mine.get((name, str(r)))) for r in o.ranks]
            lines.append(f"| {name} | {' | '.join(cells)} |")
    return lines


def cell(m: dict[str, float] | None) -> str:
    """Format the cell of a measurement. {}: the case did not end. None: the case was not measured."""
    if not m:
        return "–" if m is None else "did not end"
    hours = f"{STEPS / m['steps_per_s'] / 3600:.1f}" if m["steps_per_s"] else "inf"
    return f"{hours} ({m['steps_per_s']:,.0f}; {100 * m['sync_s']:.1f}, {100 * m['lock_wait_s']:.1f})"
