"""Learning curves as PNG files: for each setting, the mean and the spread over seeds."""

import io
import logging
import re
import textwrap
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from accel_rl.files.durable_files import write_durably
from accel_rl.metrics.metrics_file import number, read_metrics
from accel_rl.text.counts import counted
from accel_rl.text.errors import ConfigError, nearest
from accel_rl.text.output import escaped

logger = logging.getLogger(__name__)


def counted_once(keys: Sequence[Hashable], lengths: Sequence[float]) -> dict[int, list[int]]:
    """Of all runs with the same key, select the longest run, or the first of several longest runs. Return {index of the
    selected run: indexes of the other runs with the same key}, in order. `keys` has the settings, game and seed of each
    run, and `lengths` has the env steps of each run."""
    groups: dict[Hashable, list[int]] = {}
    for i, key in enumerate(keys):
        groups.setdefault(key, []).append(i)
    result = {}
    for same in groups.values():
        kept = max(same, key=lambda i: lengths[i])  # Of several equally long runs, `max` returns the first.
        result[kept] = [i for i in same if i != kept]
    return dict(sorted(result.items()))


def repeated(kept: str, others: Sequence[str], seed: object) -> str:
    """A line of text that names runs with the same settings and the same seed."""
    return f"seed {seed} counts once, from {kept}; {counted(len(others), 'more run')} of it: {', '.join(others)}"


Column = tuple[np.ndarray, np.ndarray]  # A Column contains the x values and the y values of a curve.
MINUTES = "minutes"  # The column `minutes` is not in metrics.csv, but computed as wall_s / 60.
LONG = 50  # Titles with at least LONG characters are cut.
COLUMNS = 3  # Number of panels in a row of the figure
X_LABELS = {"env_steps": "env steps (agent steps)", "wall_s": "seconds", MINUTES: "minutes"}
Y_LABELS = {"score": "score, last 100 episodes", "eval_score": "evaluation score"}


def spread(columns: Sequence[Column], points: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """x, mean, minimum and maximum of several curves, at `points` values from the smallest to the largest x of all
    curves. At each x, only curves whose range contains x are averaged. If no range contains x, the values are NaN."""
    low, high = min(x[0] for x, _ in columns), max(x[-1] for x, _ in columns)
    grid = np.linspace(low, high, points) if low < high else np.array([low])
    values = np.ma.masked_invalid([np.interp(grid, x, y, left=np.nan, right=np.nan) for x, y in columns])
    mean, least, most = (v.filled(np.nan) for v in (values.mean(0), values.min(0), values.max(0)))
    return grid, mean, least, most


CHARACTERS = 10
"""Number of characters that fit in an inch of legend text"""
UNFINISHED = ", unfinished (o)"


class Labelled(NamedTuple):
    """Runs of one label and game differ only in their seed, or in settings that do not change learning."""

    label: str
    game: str
    seed: str
    length: int = 0
    """Length of the run in env steps, or 0 if the length is a number of updates"""


@dataclass(slots=True)
class Curve:
    """Runs that differ only in their seed, with one pair of arrays (x, values) per run. `repeated` lists, as lines of
    text, the runs that are not drawn because a longer run has the same seed. `is_finished` is false if one of the runs
    has not reached its length."""

    label: str
    x: list[np.ndarray] = field(default_factory=list)
    y: list[np.ndarray] = field(default_factory=list)
    game: str = ""
    repeated: list[str] = field(default_factory=list)
    is_finished: bool = True

    @property
    def legend(self) -> str:
        return self.label + f", {len(self.x)} seeds" * (len(self.x) > 1) + UNFINISHED * (not self.is_finished)

    def band(self, points: int = 200) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """x, and the mean, minimum and maximum over seeds, up to the end of the longest run."""
        if len(self.x) == 1:
            return self.x[0], self.y[0], self.y[0], self.y[0]
        return spread(list(zip(self.x, self.y, strict=True)), points)


def read_columns(run: Path, x: str, names: Sequence[str]) -> dict[str, Column]:
    """Columns of metrics.csv, each together with the column `x`, at the rows that have both values."""
    try:
        table = read_metrics(run / "metrics.csv")
    except FileNotFoundError:
        return {name: (np.zeros(0), np.zeros(0)) for name in names}
    if damage := table.damage([x, *names]):
        logger.warning(f"{run}: {damage}")
    result = {}
    for name in names:
        pairs = np.array([[number(row.get(x)), number(row.get(name))] for row in table.rows]).reshape(-1, 2)
        result[name] = tuple(pairs[~np.isnan(pairs).any(1)].T)
    return result


def read_column(run: Path, x: str, y: str) -> Column:
    """The columns `x` and `y` of metrics.csv, at rows that have both values. `x` may be MINUTES. Raises ConfigError if
    a column is missing."""
    file = run / "metrics.csv"
    if not file.exists():
        raise ConfigError(f"{run} holds no run with metrics (no metrics.csv)")
    columns = read_metrics(file).columns
    if not columns:
        raise ConfigError(f"{file} has no rows yet")
    in_file = "wall_s" if x == MINUTES else x
    for name, others in ((in_file, [*columns, MINUTES]), (y, columns)):
        if name not in columns:
            raise ConfigError(f"{file} has no column {name!r}{nearest(name, others)}; there are: {', '.join(others)}")
    column = read_columns(run, in_file, [y])[y]
    if not column[0].size:
        raise ConfigError(f"{file} has no value of {y!r} yet")
    return (column[0] / 60, column[1]) if x == MINUTES else column


def columns_of(runs: Iterable[Path], x: str, y: str) -> dict[Path, Column]:
    """Read a column of several runs. A run without values, which may just have begun, is logged and skipped. Raises
    ConfigError if no run has values."""
    result, errors = dict[Path, Column](), list[ConfigError]()
    for run in runs:
        try:
            result[run] = read_column(run, x, y)
        except ConfigError as e:
            errors.append(e)
    if not result:
        raise errors[0]
    for error in errors:
        logger.warning(f"{error}: left out")
    return result


def gather(columns: Mapping[Path, Column], labels: Sequence[Labelled]) -> list[Curve]:
    """Runs with the same label and game form a curve. Of several runs with the same seed, only the longest is drawn.
    `columns` maps each run's folder to the column that is drawn."""
    curves: dict[tuple[str, str], Curve] = {}
    paths = list(columns)
    for i, others in counted_once(labels, [x[-1] for x, _ in columns.values()]).items():
        label, game, seed, length = labels[i]
        curve = curves.setdefault((label, game), Curve(label, game=game))
        steps, _ = read_columns(paths[i], "env_steps", ["env_steps"])["env_steps"]
        curve.is_finished &= not steps.size or steps[-1] >= length
        for values, column in zip((curve.x, curve.y), columns[paths[i]], strict=True):
            values.append(column)
        if others:
            curve.repeated.append(repeated(str(paths[i]), [str(paths[j]) for j in others], seed))
    return list(curves.values())


def draw(curves: list[Curve], out: Path, x: str, y: str) -> None:
    """Write the picture of `drawn` to a PNG, PDF or SVG file."""
    out.parent.mkdir(parents=True, exist_ok=True)
    write_durably(out, drawn(curves, x, y, out.suffix.removeprefix(".")))


def drawn(curves: list[Curve], x: str, y: str, kind: str = "png") -> bytes:
    """A figure with one panel per game. Each curve is the mean over seeds, with a band from minimum to maximum."""
    games = list(dict.fromkeys(c.game for c in curves))
    columns = min(COLUMNS, len(games))
    rows = -(-len(games) // columns)
    size = (8.0, 5.0) if len(games) == 1 else (4.4 * columns, 3.2 * rows + 0.5)
    figure, axes = subplots(rows, columns, figsize=size, dpi=120, squeeze=False)
    for panel in axes.flat[len(games) :]:
        panel.axis("off")
    colour = colours(list(dict.fromkeys(c.label for c in curves)))
    lines: dict[str, Any] = {}
    for panel, game in zip(axes.flat, games, strict=False):
        of_game = [c for c in curves if c.game == game]
        for curve in of_game:
            grid, mean, low, high = curve.band()
            c: Any = colour[curve.label]
            (line,) = panel.plot(grid, mean, color=c, linewidth=1.5, marker="o" if len(grid) == 1 else None)
            lines.setdefault(curve.legend if len(games) == 1 else curve.label, line)
            if not curve.is_finished:
                mark_unfinished(panel, grid[-1], mean[-1], c)
            if len(curve.x) > 1:
                panel.fill_between(grid, low, high, alpha=0.2, color=c, linewidth=0)
        panel.set_xlabel(X_LABELS.get(x, x))
        # The score of a run of several games is human-normalized.
        panel.set_ylabel(Y_LABELS.get(y, y) + (", % of human" if "," in game and y in (*Y_LABELS, "new_score") else ""))
        panel.locator_params(nbins=6)
        if x == "env_steps":
            panel.xaxis.set_major_formatter(counts())
        panel.grid(alpha=0.3)
        panel.set_title(literal(game if len(game) < LONG else f"{game[: LONG - 4]} ..."))
    wide = int(size[0] * CHARACTERS)
    labels = ["\n".join(textwrap.wrap(literal(name), wide)) for name in lines]
    if len(games) == 1 and all(len(name) < wide / 2 for name in lines):
        axes[0, 0].legend(list(lines.values()), labels)
    else:
        fitting = max(1, int(wide / (6 + max(map(len, lines)))))
        figure.legend(list(lines.values()), labels, loc="outside lower center", ncols=min(len(lines), COLUMNS, fitting))
    return picture(figure, kind)


def mark_unfinished(panel: Any, x: float, y: float, colour: Any) -> None:
    """Draw an open circle at the end of a curve that contains an unfinished run."""
    panel.plot([x], [y], color=colour, marker="o", fillstyle="none", markersize=7)


def literal(text: str) -> str:
    """Escape a name for a picture. Names come from the files of runs, and may contain any characters. Matplotlib would
    read text between two dollar signs as a formula, and cannot draw control characters."""
    return escaped(text).replace("$", r"\$")


def counts() -> Any:
    """A formatter that labels an axis with 500 k and 1.5 M, instead of 1.5 and a factor of 1e6."""
    from matplotlib.ticker import EngFormatter

    return EngFormatter(sep=" ")


def subplots(*shape: int, figsize: tuple[float, float], dpi: int = 100, **options: Any) -> tuple[Any, Any]:
    """(figure, axes), as from `pyplot.subplots`. Pyplot is not used, because its backend and its list of figures belong
    to the user's program or notebook."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=figsize, dpi=dpi, layout="constrained")
    return figure, figure.subplots(*shape, **options)


def picture(figure: Any, kind: str = "png") -> bytes:
    """A figure as the bytes of a PNG, PDF or SVG file."""
    buffer = io.BytesIO()
    figure.savefig(buffer, format=kind)
    return buffer.getvalue()


ALGORITHMS = {"ppo": 0, "pqn": 1, "a2c": 2, "dqn": 3, "c51": 4, "categorical": 4, "rainbow": 5, "qrdqn": 6, "iqn": 7,
              "impala": 8, "btr": 9, "r2d2": 8}  # fmt: skip
"""The number of each algorithm's colour"""


def colours(names: Sequence[str]) -> dict[str, object]:
    """The colour of each name. An algorithm has the same colour in all pictures. If several names contain the same
    algorithm, only the first of the names gets the algorithm's colour."""
    import matplotlib

    n = len(names)
    if n > 10:
        wheel = matplotlib.colormaps["turbo"]
        return {name: wheel(i / (n - 1)) for i, name in enumerate(names)}
    first: dict[int, str] = {}
    for name in names:
        words = re.findall(r"[a-z0-9]+", name.lower())
        if (number := next((ALGORITHMS[word] for word in words if word in ALGORITHMS), None)) is not None:
            first.setdefault(number, name)
    free = iter(k for k in range(10) if k not in first)
    numbers = {name: number for number, name in first.items()}
    return {name: f"C{numbers[name] if name in numbers else next(free)}" for name in names}
