"""Output of the sampler benchmark: lines for each case, a table over all cases, a figure."""

import statistics
from collections.abc import Mapping
from itertools import groupby
from pathlib import Path
from typing import Any

from benchmarks import breakdown, memory
from benchmarks.agents import NAMES

Result = dict[str, Any]


def _rest(r: Result) -> str:
    """Label a curve by all settings except the number of environments."""
    return (
        f"{r['game']}, {NAMES[r['net']]}, {r['workers']} workers, {r['groups']} groups, T {r['horizon']}, "
        f"{'together' if r['together'] else 'free'}, {r['reset']}"
    )


def report(r: Result) -> list[str]:
    """Format one case: parts, ratios, time and memory."""
    m, ratios = r["median"], r["ratios"]
    late = f", {r['late_resets']} resets came before a reserve was ready" if r["late_resets"] else ""
    lines = [
        "",
        f"{_rest(r)}, {r['B']} environments, {r['frame']}, {100 * r['stolen']:.0f} % of the time stolen by other guests"
        + late,
        f"ale act only, all cores        {m['ale_act_only']:>9,.0f} env steps/s",
        f"environment only, all cores    {m['environment_only']:>9,.0f}",
    ]
    if "inference_only" in m:
        lines.append(f"inference only, {NAMES[r['net']]:<14} {m['inference_only']:>9,.0f}")
        lines.append(f"bound: both in sequence        {m['bound']:>9,.0f}")
    busy = f"environments took {100 * m['busy']:.0f} % of the workers' time"
    lines.append(f"sampling                       {m['sampling']:>9,.0f}   {busy}")
    bound = ["sampling/bound"] if "inference_only" in m else []
    for name in ("sampling/ale_act_only", "sampling/environment_only", *bound):
        q = ratios[name]
        lines.append(
            f"{name.replace('_', ' '):<30} {q['of_medians']:>9.2f}   turn by turn {q['median_by_turn']:.2f}, "
            f"{q['least']:.2f} to {q['most']:.2f}"
        )
    return lines + breakdown.lines(r["breakdown"]) + memory.lines(r["memory"])


def table(results: list[Result]) -> list[str]:
    """Sampling speed by total simulator count (Stooke & Abbeel, table 1, in env steps/s), a column for each horizon.

    With --together the workers wait for each other once a horizon."""
    horizons = sorted({r["horizon"] for r in results})
    columns = "".join(f" {'T ' + str(t):>9} {'/ env':>5}" for t in horizons)
    lines = ["", f"{'game':<16} {'acting':<15} {'reset':<10} {'groups':>6} {'sims (per core)':>16}{columns}"]
    cells = {_key(r): {} for r in results}
    for r in results:
        cells[_key(r)][r["horizon"]] = r
    for (game, net, reset, groups, B, cores), row in cells.items():
        line = f"{game:<16} {NAMES[net]:<15} {reset:<10} {groups:>6} {f'{B} ({B / cores:g})':>16}"
        for t in horizons:
            r = row.get(t)
            line += f" {r['median']['sampling']:>9,.0f} {over(r):>5.2f}" if r else " " * 16
        lines.append(line)
    return lines


def over(r: Result) -> float:
    """Return the ratio of medians of sampling to the environments alone."""
    return r["ratios"]["sampling/environment_only"]["of_medians"]


def _key(r: Result) -> tuple:
    return r["game"], r["net"], r["reset"], r["groups"], r["B"], r["cores"]


def figure(results: list[Result], path: Path, one_core: Mapping[str, float] | None = None) -> None:
    """Plot steps/s per core against environments per core, a panel for each game (Stooke & Abbeel, figure 2).

    Horizontal lines show rates without inference: environment_only and ale_act_only of all cores, or the rates of one
    core: {"process": dashed, "hyperthreads": dotted}.
    """
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    games = list(dict.fromkeys(r["game"] for r in results))
    fig, axes = plt.subplots(1, len(games), figsize=(6 * len(games), 4.5), squeeze=False)
    for game, ax in zip(games, axes[0], strict=True):
        of_game = sorted((r for r in results if r["game"] == game), key=lambda r: (_rest(r), r["B"]))
        for label, same in groupby(of_game, key=_rest):
            curve = list(same)
            x = [r["B"] / r["cores"] for r in curve]
            ax.plot(
                x, [r["median"]["sampling"] / r["cores"] for r in curve], "o-", label=label.removeprefix(f"{game}, ")
            )
        lines = {"process": "one process on one core", "hyperthreads": "one on each hyperthread of a core"}
        levels = {lines[name]: rate for name, rate in (one_core or {}).items()}
        if not levels:
            for name in ("environment_only", "ale_act_only"):
                levels[name.replace("_", " ")] = statistics.mean(r["median"][name] / r["cores"] for r in of_game)
        for (name, level), style in zip(levels.items(), ("--", ":"), strict=False):
            ax.axhline(level, color="black", linestyle=style, label=f"{name}, no inference")
        ax.set(title=game, xlabel="environments per core", ylabel="env steps/s per core", ylim=(0, None))
        ax.set_xscale("log", base=2)
        ticks = sorted({r["B"] / r["cores"] for r in of_game})
        ax.set_xticks(ticks, [f"{x:g}" for x in ticks])
        ax.legend(fontsize=7)
    fig.tight_layout()
    fig.savefig(path, dpi=120)
    plt.close(fig)
