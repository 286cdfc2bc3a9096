"""Plots scores and the norms of parameters, gradients and steps, as Figure 9 of Stooke & Abbeel 2018."""

from collections.abc import Mapping, Sequence

import numpy as np

from accel_rl.metrics.plot import colours
from accel_rl.report.curves import Band, band
from accel_rl.report.panels import Panel, wrapped
from accel_rl.results.trained_run import TrainedRun, by_setting

LAYERS = {"Conv-0": "body.conv_0.weight", "FC-0": "advantage.hidden.weight"}
NORMS = {"weights": "param_norm", "gradients": "grad_norm", "steps": "step_norm"}
SECONDARY = "secondary/"
"""The metrics columns of a secondary learner begin with `SECONDARY`."""


def titles() -> dict[str, str]:
    """{title: column of metrics.csv}, in the order of Figure 9."""
    result = {"score": "eval_score", "all weights": "param_norm"}
    for layer, name in LAYERS.items():
        result |= {f"{layer} {what}": f"{norm}/{name}" for what, norm in NORMS.items()}
    return result


def learners(run: TrainedRun) -> dict[str, str]:
    """{prefix of the learner's columns: name of the learner with its batch size}"""
    settings = run.settings
    if batch := settings.get("secondary.batch"):
        sampler = f"{settings.get('algo.batch_size')}-sampler-learner"
        return {"": sampler, SECONDARY: f"{batch}-secondary-learner"}
    return {"": ""}


def has_norms(run: TrainedRun) -> bool:
    return bool(run.settings.get("log.norms"))


def learner_bands(runs: Sequence[TrainedRun], columns: Mapping[str, str]) -> dict[str, dict[str, Band]]:
    """The curves {learner: {title: band}} of runs that differ only by seed."""
    result: dict[str, dict[str, Band]] = {}
    for prefix, learner in learners(runs[0]).items():
        values = [(r, r.columns([prefix + c for c in columns.values()])) for r in runs]
        for title, column in columns.items():
            finite = [(r, v[prefix + column]) for r, v in values if np.isfinite(v[prefix + column][1]).all()]
            if (b := band(finite)) is not None:
                result.setdefault(learner, {})[title] = b
    return result


def short_names(runs: Sequence[TrainedRun]) -> dict[str, str]:
    """{setting: label}. A label consists of optimizer, batch size and learning rate, as in Figure 9. If these labels
    are not unique, the labels are the names of the settings."""
    names = {r.setting: _optimizer(r) for r in runs}
    return names if len(set(names.values())) == len(names) else {setting: setting for setting in names}


def _optimizer(run: TrainedRun) -> str:
    s = run.settings
    optimizer = "Adam" if str(s.get("algo.optimizer")).startswith("adam") else "RMSProp"
    return f"{optimizer}, {s.get('algo.batch_size', '')}, {s.get('algo.learning_rate')}"


def panels(runs: Sequence[TrainedRun]) -> list[Panel]:
    """A panel for each measured quantity of one game, with a curve for each setting and learner."""
    names = short_names(runs)
    lines: dict[str, dict[str, Band]] = {}
    for setting, games in sorted(by_setting(runs).items(), key=lambda item: names[item[0]].partition(",")[0]):
        for same in games.values():
            for learner, bands in learner_bands(same, titles()).items():
                for title, b in bands.items():
                    label = ", ".join(word for word in (names[setting], learner) if word)
                    lines.setdefault(title, {})[label] = b
    game = runs[0].game if runs else ""
    return [
        Panel(f"{game}, {title}", lines[title], game=game if title == "score" else "")
        for title in titles()
        if title in lines
    ]


def drawn(panels: Sequence[Panel], kind: str = "png") -> bytes:
    """One picture of one game's panels, in rows of four as in Figure 9."""
    lines = list(dict.fromkeys(line for panel in panels for line in panel.lines))
    return wrapped(panels, colours(lines), columns=4, kind=kind)[0]


QUANTITIES = {"evaluation score": "eval_score", "norm of the parameters": "param_norm"}
SHORT = {"": "sampler-learner", SECONDARY: "secondary learner"}


def has_secondary(run: TrainedRun) -> bool:
    return bool(run.settings.get("secondary.batch"))


def secondary_panels(runs: Sequence[TrainedRun]) -> dict[str, list[Panel]]:
    """{quantity: panels}, with a panel for each setting and game. A panel has a curve for each learner, which is the
    mean over seeds."""
    result: dict[str, list[Panel]] = {quantity: [] for quantity in QUANTITIES}
    for games in by_setting(runs).values():
        for game, same in games.items():
            names = learners(same[0])
            bands = learner_bands(same, QUANTITIES)
            for quantity, panels in result.items():
                lines = {
                    short: bands[names[prefix]][quantity]
                    for prefix, short in SHORT.items()
                    if quantity in bands.get(names[prefix], {})
                }
                if lines:
                    sampler, other = same[0].settings.get("algo.batch_size"), same[0].settings.get("secondary.batch")
                    title = f"{game}: sampler {sampler}, secondary {other}"
                    panels.append(
                        Panel(title, lines, game=game if quantity == "evaluation score" else "", quantity=quantity)
                    )
    return {quantity: panels for quantity, panels in result.items() if panels}
