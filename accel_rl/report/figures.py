"""The report's pictures, as PNG bytes."""

import io
from collections.abc import Mapping, Sequence

import numpy as np

from accel_rl.report.curves import Band
from accel_rl.report.papers import published
from accel_rl.report.statistics import TAUS, Summary

COLUMNS, PANELS = 3, 12  # panels of one picture
REFERENCES = (("random", "random", "0.6", ":"), ("human", "human", "0.3", "--"), ("dqn", "DQN 2015", "0.5", "-."))


def _pyplot() -> object:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    return plt


def _png(figure: object) -> bytes:
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png")  # type: ignore[attr-defined]
    _pyplot().close(figure)  # type: ignore[attr-defined]
    return buffer.getvalue()


def colours(settings: Sequence[str]) -> dict[str, object]:
    """One for each setting, the same in all pictures."""
    import matplotlib

    wheel = matplotlib.colormaps["tab10" if len(settings) <= 10 else "turbo"]
    n = len(settings)
    return {s: wheel(i) if n <= 10 else wheel(i / (n - 1)) for i, s in enumerate(settings)}


def curves(bands: Mapping[str, Mapping[str, Band]], colour: Mapping[str, object]) -> list[bytes]:
    """Learning curves, a panel a game: {game: {setting: band}}. Lines across: random, human and DQN scores, where the
    curves come near them."""
    games = list(bands)
    return [_panels(games[i : i + PANELS], bands, colour) for i in range(0, len(games), PANELS)]


def _panels(games: Sequence[str], bands: Mapping[str, Mapping[str, Band]], colour: Mapping[str, object]) -> bytes:
    plt = _pyplot()
    columns = min(COLUMNS, len(games))
    rows = -(-len(games) // columns)
    figure, axes = plt.subplots(  # type: ignore[attr-defined]
        rows, columns, figsize=(4.2 * columns, 2.9 * rows + 0.6), dpi=100, squeeze=False, layout="constrained"
    )
    lines: dict[str, object] = {}
    for panel in axes.flat[len(games) :]:
        panel.axis("off")
    for panel, game in zip(axes.flat, games, strict=False):
        for setting, b in bands[game].items():
            (lines[setting],) = panel.plot(
                b.steps, b.mean, color=colour[setting], linewidth=1.4, marker="o" if len(b.steps) == 1 else None
            )
            if b.seeds > 1:
                panel.fill_between(b.steps, b.low, b.high, color=colour[setting], alpha=0.2, linewidth=0)
        _references(panel, game)
        what = next(iter(bands[game].values())).what
        panel.set_title(f"{game}, {what} score", fontsize=10)
        panel.set_xlabel("env steps", fontsize=8)
        panel.tick_params(labelsize=8)
        panel.locator_params(nbins=5)
        panel.grid(alpha=0.3)
    longest = max((len(name) for name in lines), default=1)
    fitting = int(4.2 * columns / (0.5 + 0.075 * longest))  # inches of a name at this size
    figure.legend(
        list(lines.values()), list(lines), loc="outside lower center", ncols=max(1, min(4, fitting)), fontsize=8
    )
    return _png(figure)


def _references(panel: object, game: str) -> None:
    row = published(game)
    if not row:
        return
    low, high = panel.get_ylim()  # type: ignore[attr-defined]
    for name, label, colour, style in REFERENCES:
        if low <= row[name] <= high:
            panel.axhline(row[name], color=colour, linestyle=style, linewidth=1)  # type: ignore[attr-defined]
            panel.annotate(  # type: ignore[attr-defined]
                label, (0.01, row[name]), xycoords=("axes fraction", "data"), fontsize=7, color="0.4", va="bottom"
            )


def intervals(found: Mapping[str, Summary], colour: Mapping[str, object]) -> bytes:
    """Median and interquartile mean of each setting, with their intervals, in percent."""
    plt = _pyplot()
    figure, axes = plt.subplots(  # type: ignore[attr-defined]
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
    return _png(figure)


def profiles(found: Mapping[str, Summary], colour: Mapping[str, object]) -> bytes:
    """Performance profiles: the share of runs above a human-normalised score."""
    plt = _pyplot()
    figure, panel = plt.subplots(figsize=(8, 4.5), dpi=100, layout="constrained")  # type: ignore[attr-defined]
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
    figure.legend(loc="outside lower center", ncols=2, fontsize=8)
    return _png(figure)
