"""Claims of Stooke & Abbeel 2018 about their figures, which have no printed numbers."""

from collections.abc import Sequence

from accel_rl.config.registry import experiment_of
from accel_rl.report.papers import papers
from accel_rl.report.run import Run


def stooke_figures(experiment: str) -> list[str]:
    """Return the numbers of the figures that an experiment reproduces: ["3"] for stooke:figure_3."""
    function = experiment_of("stooke", experiment)
    return [n for n, figure in papers()["stooke2018"]["figures"].items() if function in figure["experiments"]]


def shown_figures(runs: Sequence[Run]) -> list[str]:
    """Return the numbers of the figures that these runs reproduce, in the paper's order."""
    found = {n for r in runs for n in stooke_figures(r.experiment)}
    return sorted(found, key=int)


def claims(figures: Sequence[str]) -> list[str]:
    """Format the paper's claims about these figures, a line each."""
    printed = papers()["stooke2018"]["figures"]
    return [f"Stooke & Abbeel, figure {n}: {claim}" for n in figures for claim in printed[n]["claims"]]


def title(figures: Sequence[str]) -> str:
    """Return the title of a section about these figures."""
    printed = papers()["stooke2018"]["figures"]
    return "Stooke & Abbeel 2018, " + "; ".join(f"figure {n}: {printed[n]['title']}" for n in figures)
