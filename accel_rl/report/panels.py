"""Learning curves, in one panel for each game, or in rows of panels as in the papers' figures."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from accel_rl.envs.atari_games import human_scale
from accel_rl.metrics.plot import colours, counts, literal, mark_unfinished, picture, subplots
from accel_rl.papers.published import published
from accel_rl.papers.stooke.stooke_tables import stooke_figures
from accel_rl.report.curves import Band, Over, score_bands
from accel_rl.report.page import NARROW
from accel_rl.results import run_settings
from accel_rl.results.section import Picture
from accel_rl.results.table import Table, number
from accel_rl.results.trained_run import BySetting

COLUMNS, PANELS = 3, 12  # A picture whose panels are not grouped in rows has at most COLUMNS columns and PANELS panels.
SIZES = {1: (10.0, 5.2), 2: (6.4, 4.2), 3: (4.2, 2.9)}
"""Maps the number of columns to the width and height of a panel in inches. The page is 13 inches wide."""
MOST_NAMED = 3  # The names of more than three published scores would overlap, and are omitted.
ROW_COLUMNS = 6  # A picture whose panels are grouped in rows has six panels in each row.
REFERENCES = (
    ("random", "random", "0.6", ":"),
    ("human", "human (57 games)", "0.3", "--"),
    ("dqn", "DQN 2015", "0.5", "-."),
)


@dataclass(frozen=True)
class PublishedScore:
    """A published score after a number of env steps, drawn with its standard deviation, in the colour of the line to
    which it belongs."""

    line: str
    steps: int
    mean: float
    deviation: float
    source: str


@dataclass(frozen=True)
class Panel:
    """A curve for each of `lines`. Published scores of `game` are drawn as horizontal lines. `quantity` is the label of
    the y axis."""

    title: str
    lines: Mapping[str, Band]
    over: Over = "env steps"
    game: str = ""
    quantity: str = ""
    points: Sequence[PublishedScore] = ()


def wrapped(
    panels: Sequence[Panel], colour: Mapping[str, object], columns: int = COLUMNS, kind: str = "png"
) -> list[bytes]:
    """Pictures of the panels, each with one legend."""
    return [_wrapped(part, colour, columns, kind) for part in _parts(panels)]


def pictures(panels: Sequence[Panel], colour: Mapping[str, object], caption: str) -> list[Picture]:
    wide = wrapped(panels, colour)
    narrow = [_wrapped(part, colour, columns=1, size=(NARROW, 3.0)) for part in _parts(panels)]
    return [Picture(png, caption, of_phone) for png, of_phone in zip(wide, narrow, strict=True)]


def _parts(panels: Sequence[Panel]) -> list[Sequence[Panel]]:
    return [panels[i : i + PANELS] for i in range(0, len(panels), PANELS)]


def _wrapped(
    panels: Sequence[Panel],
    colour: Mapping[str, object],
    columns: int,
    kind: str = "png",
    size: tuple[float, float] | None = None,
) -> bytes:
    """`size` is the size of a panel in inches, by default `SIZES` for the number of columns."""
    columns = min(columns, len(panels))
    rows = -(-len(panels) // columns)
    width, height = size or SIZES[min(columns, COLUMNS)]
    figure, axes = subplots(rows, columns, figsize=(width * columns, height * rows + 0.6), squeeze=False)
    for spare in axes.flat[len(panels) :]:
        spare.axis("off")
    lines: dict[str, object] = {}
    for axis, panel in zip(axes.flat, panels, strict=False):
        lines |= _draw(axis, panel, colour)
    longest = max((len(name) for name in lines), default=1)
    # Number of the legend's columns: a column is 0.5 inches wide, plus 0.075 inches for each character.
    fitting = max(1, min(4, int(width * columns / (0.5 + 0.075 * longest))))
    figure.legend(
        list(lines.values()),
        list(map(literal, lines)),
        loc="outside lower center",
        ncols=min(fitting, len(lines)),
        fontsize=8,
    )
    return picture(figure, kind)


def in_rows(rows: Mapping[str, Mapping[str, Panel]], columns: Sequence[str]) -> list[bytes]:
    """Pictures of {row: {column: panel}}. Each row of panels has its own colours and legend."""
    chunks = [columns[i : i + ROW_COLUMNS] for i in range(0, len(columns), ROW_COLUMNS)]
    return [_in_rows(rows, chunk) for chunk in chunks]


def _in_rows(rows: Mapping[str, Mapping[str, Panel]], columns: Sequence[str]) -> bytes:
    width = 3.4 if len(columns) <= 4 else 2.7
    figure, axes = subplots(
        len(rows),
        len(columns),
        figsize=(width * len(columns) + 2.2, 2.5 * len(rows) + 0.3),
        dpi=110,
        squeeze=False,
    )
    for row_axes, (row, panels) in zip(axes, rows.items(), strict=True):
        colour = colours(list(dict.fromkeys(line for p in panels.values() for line in p.lines)))
        lines: dict[str, object] = {}
        for axis, column in zip(row_axes, columns, strict=True):
            if column in panels:
                lines |= _draw(axis, panels[column], colour)
            else:
                axis.axis("off")
        row_axes[-1].legend(
            list(lines.values()),
            list(map(literal, lines)),
            title=literal(row),
            title_fontsize=10,
            loc="center left",
            bbox_to_anchor=(1.02, 0.5),
            fontsize=8,
        )
    return picture(figure)


def _draw(axis: object, panel: Panel, colour: Mapping[str, object]) -> dict[str, object]:
    """Draw a panel. Return {line: handle for the legend}."""
    a, lines = axis, {}
    for name, b in panel.lines.items():
        x = b.steps if panel.over == "env steps" else b.minutes
        single = "o" if len(x) == 1 else None
        (lines[name],) = a.plot(x, b.mean, color=colour[name], linewidth=1.4, marker=single)  # type: ignore[attr-defined]
        if not b.is_finished:
            mark_unfinished(a, x[-1], b.mean[-1], colour[name])
        if b.seeds > 1:
            a.fill_between(x, b.low, b.high, color=colour[name], alpha=0.2, linewidth=0)  # type: ignore[attr-defined]
    for p in panel.points:
        a.errorbar(p.steps, p.mean, p.deviation, color=colour[p.line], marker="x", capsize=3)  # type: ignore[attr-defined]
        if len(panel.points) > MOST_NAMED:
            continue
        a.annotate(  # type: ignore[attr-defined]
            p.source, (p.steps, p.mean), (-4, 3), textcoords="offset points", fontsize=6, color="0.4", ha="right"
        )
    _references(a, panel.game)
    a.set_title(literal(panel.title), fontsize=10)  # type: ignore[attr-defined]
    a.set_xlabel(panel.over, fontsize=8)  # type: ignore[attr-defined]
    a.set_ylabel(panel.quantity, fontsize=8)  # type: ignore[attr-defined]
    a.tick_params(labelsize=8)  # type: ignore[attr-defined]
    a.locator_params(nbins=5)  # type: ignore[attr-defined]
    if panel.over == "env steps":
        a.xaxis.set_major_formatter(counts())  # type: ignore[attr-defined]
    a.grid(alpha=0.3)  # type: ignore[attr-defined]
    return lines


def _references(axis: object, game: str) -> None:
    row = dict(zip(("random", "human"), human_scale(game) or (), strict=False))
    row |= {name: score for name, score in published(game).items() if name == "dqn"}
    low, high = axis.get_ylim()  # type: ignore[attr-defined]
    for name, label, colour, style in REFERENCES:
        if name in row and low <= row[name] <= high:
            axis.axhline(row[name], color=colour, linestyle=style, linewidth=1)  # type: ignore[attr-defined]
            axis.annotate(  # type: ignore[attr-defined]
                label, (0.01, row[name]), xycoords=("axes fraction", "data"), fontsize=7, color="0.4", va="bottom"
            )


def panels_table(name: str, title: str, panels: Sequence[Panel]) -> Table:
    rows = [
        [
            *(panel.title, panel.quantity, line, str(b.seeds), number(b.steps[i], 0), number(b.minutes[i], 3)),
            *(f"{v[i]:.6g}" for v in (b.mean, b.low, b.high)),
        ]
        for panel in panels
        for line, b in panel.lines.items()
        for i in range(len(b.steps))
    ]
    columns = ["panel", "quantity", "learner", "seeds", "env steps", "minutes", "mean", "low", "high"]
    return Table(name, title, columns, rows)


FIGURES_IN_ROWS = {"3", "4"}


def grouped(settings: BySetting) -> dict[str, BySetting]:
    """{family: settings}, where each family is a row of the figure, or {"": settings} for a single group. Runs of
    Figures 3 and 4 are drawn in rows. Runs of other experiments are drawn in one row per family if every family has
    several settings."""
    rows: dict[str, dict[str, Any]] = {}
    runs = [r for games in settings.values() for same in games.values() for r in same]
    for setting, games in settings.items():
        first = next(r for same in games.values() for r in same)
        rows.setdefault(run_settings.family(first.settings), {})[setting] = games
    figures = {n for r in runs for n in stooke_figures(r.experiment)}
    several = figures <= FIGURES_IN_ROWS if figures else all(len(result) > 1 for result in rows.values())
    if len(rows) < 2 or "" in rows or not several:
        return {"": settings}
    return {f: rows[f] for f in run_settings.FAMILIES if f in rows}


def bands_of(rows: dict[str, BySetting], curve: str, over: Over) -> dict[str, dict[str, dict[str, Band]]]:
    """{row: {game: {setting: band}}}"""
    return {row: score_bands(settings, curve, over) for row, settings in rows.items()}


def left_out(bands: dict[str, dict[str, dict[str, Band]]], settings: BySetting, over: Over) -> list[str]:
    """A line for each setting and game that has scores but no curve."""
    in_bands = {(setting, game) for games in bands.values() for game, lines in games.items() for setting in lines}
    why = "no wall clock" if over == "minutes" else "no score in metrics.csv"
    return [
        f"no curve of {setting} in {game}: its runs have {why}"
        for setting, games in settings.items()
        for game, runs in games.items()
        if (setting, game) not in in_bands and any(r.online[0].size or r.evaluated for r in runs)
    ]


def drawn(bands: dict[str, dict[str, dict[str, Band]]], settings: BySetting, over: Over, caption: str) -> list[Picture]:
    panels = {
        row: {
            game: Panel(f"{game}, {next(iter(lines.values())).what} score", lines, over, game)
            for game, lines in games.items()
        }
        for row, games in bands.items()
        if games
    }
    if len(panels) > 1:
        rows = in_rows(panels, sorted({game for result in panels.values() for game in result}))
        return [Picture(png, caption) for png in rows]
    colour = colours(list(settings))
    return [p for result in panels.values() for p in pictures(list(result.values()), colour, caption)]
