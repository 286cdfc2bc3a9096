"""Stooke & Abbeel 2018, Figures 6 to 8: scores and parameter norms of a sampler-learner and of the secondary learner
that trains on the same replay."""

from collections.abc import Sequence

from accel_rl.report.norms import SECONDARY, learner_bands, learners
from accel_rl.report.panels import Panel
from accel_rl.report.run import Run, by_setting

QUANTITIES = {"evaluation score": "eval_score", "norm of the parameters": "param_norm"}
SHORT = {"": "sampler-learner", SECONDARY: "secondary learner"}


def has_secondary(run: Run) -> bool:
    return bool(run.settings.get("secondary.batch"))


def panels(runs: Sequence[Run]) -> dict[str, list[Panel]]:
    """Build {quantity: panels}: a panel for each setting and game, with the mean over seeds of each learner."""
    found: dict[str, list[Panel]] = {quantity: [] for quantity in QUANTITIES}
    for games in by_setting(runs).values():
        for game, same in games.items():
            names = learners(same[0])
            bands = learner_bands(same, QUANTITIES)
            for quantity, there in found.items():
                lines = {
                    short: bands[names[prefix]][quantity]
                    for prefix, short in SHORT.items()
                    if quantity in bands.get(names[prefix], {})
                }
                if lines:
                    sampler, other = same[0].settings.get("algo.batch_size"), same[0].settings.get("secondary.batch")
                    title = f"{game}: sampler {sampler}, secondary {other}"
                    there.append(
                        Panel(title, lines, game=game if quantity == "evaluation score" else "", quantity=quantity)
                    )
    return {quantity: there for quantity, there in found.items() if there}
