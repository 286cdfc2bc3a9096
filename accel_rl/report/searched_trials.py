"""The trials of hyperparameter searches, as a table and as plots."""

import csv
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from accel_rl.metrics.plot import picture, pyplot
from accel_rl.results.table import Table
from accel_rl.results.trained_run import Run

COLUMNS = 3


@dataclass(frozen=True)
class Search:
    """The finished trials of a search, from its trials.csv, in the order of their scores."""

    name: str
    settings: Sequence[str]
    trials: Sequence[dict[str, str]]

    def table(self) -> Table:
        columns = ["trial", "state", "score", *self.settings]
        rows = [[trial[c] for c in columns] for trial in self.trials]
        return Table(f"search_{self.name}", f"Search: {self.name}", columns, rows)

    def drawn(self) -> bytes:
        """The score against each searched setting, with a point for each complete trial."""
        complete = [t for t in self.trials if t["score"]]
        columns = min(COLUMNS, len(self.settings))
        rows = -(-len(self.settings) // columns)
        figure, axes = pyplot().subplots(  # type: ignore[attr-defined]
            rows, columns, figsize=(3.6 * columns, 2.6 * rows), dpi=100, squeeze=False, layout="constrained"
        )
        for axis in axes.flat[len(self.settings) :]:
            axis.axis("off")
        for axis, setting in zip(axes.flat, self.settings, strict=False):
            points = [(t[setting], float(t["score"])) for t in complete if t[setting]]
            numbers = [_number(value) for value, _ in points]
            if None in numbers:
                axis.plot([value for value, _ in points], [s for _, s in points], "o", markersize=4, alpha=0.7)
            else:
                x = [n for n in numbers if n is not None]
                axis.plot(x, [s for _, s in points], "o", markersize=4, alpha=0.7)
                if x and min(x) > 0 and max(x) >= 10 * min(x):
                    axis.set_xscale("log")
                    axis.minorticks_off()
                else:
                    axis.locator_params("x", nbins=4)  # More than four tick labels of five digits would overlap.
            axis.set_xlabel(setting, fontsize=9)
            axis.set_ylabel("score", fontsize=8)
            axis.tick_params(labelsize=8)
            axis.grid(alpha=0.3)
        return picture(figure)


def searches(runs: Sequence[Run]) -> list[Search]:
    folders = dict.fromkeys(run.path.parent for run in runs if run.path)
    return [_read(folder) for folder in folders if (folder / "trials.csv").exists()]


def _read(folder: Path) -> Search:
    with open(folder / "trials.csv", newline="") as f:
        reader = csv.DictReader(f)
        trials = sorted(reader, key=lambda t: -float(t["score"] or "-inf"))
    return Search(folder.name, list(reader.fieldnames or ())[3:], trials)


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None
