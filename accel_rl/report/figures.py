"""Plots of aggregates over games, as PNG bytes."""

from collections.abc import Mapping

import numpy as np

from accel_rl.report.canvas import picture, pyplot
from accel_rl.report.statistics import TAUS, Summary


def intervals(found: Mapping[str, Summary], colour: Mapping[str, object]) -> bytes:
    """Draw median and interquartile mean of each setting with their intervals, in percent, as a PNG."""
    figure, axes = pyplot().subplots(  # type: ignore[attr-defined]
        1, 2, figsize=(10, 0.32 * len(found) + 1.2), dpi=100, sharey=True, layout="constrained"
    )
    for i, (setting, summary) in enumerate(found.items()):
        for panel, v in zip(axes, (summary.median, summary.iqm), strict=True):
            c = colour.get(setting, "0.4")
            if np.isfinite(v.low):
                panel.plot([100 * v.low, 100 * v.high], [i, i], color=c, linewidth=8, alpha=0.35, solid_capstyle="butt")
            panel.plot([100 * v.value], [i], marker="|", markersize=14, color=c)
    for panel, title in zip(axes, ("median", "interquartile mean"), strict=True):
        panel.set_title(f"{title}, % between random and human", fontsize=10)
        panel.grid(alpha=0.3, axis="x")
        panel.tick_params(labelsize=8)
    axes[0].set_yticks(range(len(found)), list(found), fontsize=8)
    axes[0].set_ylim(len(found) - 0.5, -0.5)
    return picture(figure)


def profiles(found: Mapping[str, Summary], colour: Mapping[str, object]) -> bytes:
    """Draw performance profiles, the share of runs above a human-normalised score, as a PNG."""
    columns = 2 if max(map(len, found), default=0) > 30 else 3
    height = 4.0 + 0.19 * -(-len(found) // columns)  # inches; a line of the legend has 0.19
    figure, panel = pyplot().subplots(figsize=(8, height), dpi=100, layout="constrained")  # type: ignore[attr-defined]
    greys = iter(("--", ":", "-."))
    for setting, s in found.items():
        ours = setting in colour
        c, style = (colour[setting], "-") if ours else ("0.4", next(greys))
        panel.plot(100 * TAUS, s.share, color=c, label=setting, linestyle=style, linewidth=1.4)
        if np.isfinite(s.share_low).all():
            panel.fill_between(100 * TAUS, s.share_low, s.share_high, color=c, alpha=0.2, linewidth=0)
    panel.set_xlabel("score t, % between random and human", fontsize=9)
    panel.set_ylabel("share of runs above t", fontsize=9)
    panel.set_ylim(-0.02, 1.02)
    panel.grid(alpha=0.3)
    figure.legend(loc="outside lower center", ncols=columns, fontsize=8)
    return picture(figure)
