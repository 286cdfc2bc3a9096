"""Learning curves as a picture: runs of one kind are one curve, with the spread over their seeds."""

import csv
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from accel_rl.errors import ConfigError, nearest

Column = tuple[np.ndarray, np.ndarray]  # x and y


@dataclass(slots=True)
class Curve:
    """The runs that differ by their seed alone: steps and values, one array pair a run."""

    label: str
    x: list[np.ndarray] = field(default_factory=list)
    y: list[np.ndarray] = field(default_factory=list)

    def band(self, points: int = 200) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """x, mean, low, high (least and greatest over seeds), where every run has values."""
        if len(self.x) == 1:
            return self.x[0], self.y[0], self.y[0], self.y[0]
        low, high = max(x[0] for x in self.x), min(x[-1] for x in self.x)
        if low > high:
            raise ConfigError(
                f"{self.label}: its runs have no steps in common (one begins at {low:g}, one ends at {high:g})"
            )
        grid = np.linspace(low, high, points) if low < high else np.array([low])
        values = np.stack([np.interp(grid, x, y) for x, y in zip(self.x, self.y, strict=True)])
        return grid, values.mean(0), values.min(0), values.max(0)


def read_columns(run: Path, x: str, names: Sequence[str]) -> dict[str, Column]:
    """Columns of a run's metrics.csv against another, where both are given; empty where there is none yet."""
    pairs: dict[str, list[tuple[float, float]]] = {name: [] for name in names}
    try:
        with open(run / "metrics.csv", newline="") as f:
            for row in csv.DictReader(f):
                for name in names:
                    if row.get(x) and row.get(name):
                        pairs[name].append((float(row[x]), float(row[name])))
    except FileNotFoundError:
        pass
    except ValueError as e:
        raise ConfigError(f"{run / 'metrics.csv'} is damaged: {e}") from e
    arrays = {name: np.array(p).reshape(-1, 2) for name, p in pairs.items()}
    return {name: (a[:, 0], a[:, 1]) for name, a in arrays.items()}


def read_column(run: Path, x: str, y: str) -> Column:
    """Two columns of a run's metrics.csv, where both are given. ConfigError where they are not there."""
    file = run / "metrics.csv"
    if not file.exists():
        raise ConfigError(f"{run} holds no run with metrics (no metrics.csv)")
    with open(file, newline="") as f:
        columns = next(csv.reader(f), [])
    for name in (x, y):
        if name not in columns:
            raise ConfigError(f"{file} has no column {name!r}{nearest(name, columns)}; there are: {', '.join(columns)}")
    column = read_columns(run, x, [y])[y]
    if not column[0].size:
        raise ConfigError(f"{file} has no value of {y!r} yet")
    return column


def _kind(run: Path) -> tuple[str, str]:
    """(what the run's settings are but for seed and folder, a label)."""
    try:
        config = json.loads((run / "config.json").read_text())
    except (OSError, ValueError) as e:
        raise ConfigError(f"{run} holds no run (no config.json)") from e
    label = f"{config.get('algorithm')} {config.get('env', {}).get('game') or config.get('env', {}).get('id')}"
    for key in ("seed", "run_dir", "wandb", "wandb_project"):
        config.pop(key, None)
    return json.dumps(config, sort_keys=True), label


def gather(runs: list[Path], x: str, y: str) -> list[Curve]:
    """Runs grouped by their settings without the seed."""
    curves: dict[str, Curve] = {}
    for run in runs:
        key, label = _kind(run)
        curve = curves.setdefault(key, Curve(label))
        a, b = read_column(run, x, y)
        curve.x.append(a)
        curve.y.append(b)
    labels = [c.label for c in curves.values()]
    for i, (curve, run) in enumerate(zip(curves.values(), _first_of_each(runs), strict=True)):
        if labels.count(labels[i]) > 1:  # same algorithm and game, other settings: the folder tells them apart
            curve.label = f"{labels[i]} ({run.name})"
        if len(curve.x) > 1:
            curve.label += f", {len(curve.x)} seeds"
    return list(curves.values())


def _first_of_each(runs: list[Path]) -> list[Path]:
    first: dict[str, Path] = {}
    for run in runs:
        first.setdefault(_kind(run)[0], run)
    return list(first.values())


def draw(curves: list[Curve], out: Path, x: str, y: str) -> None:
    """Write a PNG: mean line, band from the least to the greatest over seeds."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(8, 5), dpi=120)
    for curve in curves:
        grid, mean, low, high = curve.band()
        (line,) = axes.plot(grid, mean, label=curve.label, linewidth=1.5, marker="o" if len(grid) == 1 else None)
        if len(curve.x) > 1:
            axes.fill_between(grid, low, high, alpha=0.2, color=line.get_color(), linewidth=0)
    axes.set_xlabel({"env_steps": "env steps (agent steps)", "wall_s": "seconds"}.get(x, x))
    axes.set_ylabel({"score": "score, last 100 episodes", "eval_score": "evaluation score"}.get(y, y))
    axes.grid(alpha=0.3)
    axes.legend()
    figure.tight_layout()
    out.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(out)
    plt.close(figure)
