"""Draws the figure of `experiments.sampling`: steps/s per core by environments per core (Stooke & Abbeel 2018, figure
2)."""

import statistics
from pathlib import Path
from typing import Any

ONE_CORE = {"process": "one process on one core", "hyperthreads": "one on each hyperthread of a core"}


def curves(results: list[dict[str, Any]]) -> dict[str, list[tuple[float, float]]]:
    """Return {label: [(environments per core, env steps/s per core)]}, sorted, for the samplers of one game."""
    result: dict[str, list[tuple[float, float]]] = {}
    for r in results:
        for title, s in r.get("samplers", {}).items():
            label = f"{r['actions']}, {r['workers']} workers, {s['groups']} groups, T {s['T']}, {s['reset']}"
            result.setdefault(label, []).append((s["B"] / r["cores"], r["median"][title] / r["cores"]))
    return {label: sorted(points) for label, points in result.items()}


def levels(results: list[dict[str, Any]], game: str) -> dict[str, float]:
    """Return the rates without inference per core: the rates of one core if measured, otherwise the means over all
    cores."""
    for r in results:
        if "samplers" not in r:
            return {ONE_CORE[name]: rate for name, rate in r["median"].items()}
    rates = [r["median"]["environment_only"] / r["cores"] for r in results if r["game"] == game]
    return {"environment only": statistics.mean(rates)}


def figure(results: list[dict[str, Any]], path: Path) -> None:
    """Draw a panel for each game, with horizontal lines for rates without inference."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    games = list(dict.fromkeys(r["game"] for r in results))
    fig, axes = plt.subplots(1, len(games), figsize=(6 * len(games), 4.5), squeeze=False)
    for game, ax in zip(games, axes[0], strict=True):
        ticks: set[float] = set()
        for label, points in curves([r for r in results if r["game"] == game]).items():
            ax.plot(*zip(*points, strict=True), "o-", label=label)
            ticks |= {x for x, _ in points}
        for (name, level), style in zip(levels(results, game).items(), ("--", ":"), strict=False):
            ax.axhline(level, color="black", linestyle=style, label=f"{name}, no inference")
        ax.set(title=game, xlabel="environments per core", ylabel="env steps/s per core", ylim=(0, None))
        ax.set_xscale("log", base=2)
        ax.set_xticks(sorted(ticks), [f"{x:g}" for x in sorted(ticks)])
        ax.legend(fontsize=7)
    fig.tight_layout()
    fig.savefig(path, dpi=120)
    plt.close(fig)
