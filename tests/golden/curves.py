"""Golden curves of short runs: the losses, gradient norms and scores that runs.py must reproduce.

The program `python -m tests.golden.curves` measures all curves, and prints their differences from the stored curves.
With --update, the program stores the measured curves.
"""

import contextlib
import csv
import json
import os
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch

from accel_rl.metrics.update_metrics import UpdateMetrics
from accel_rl.planning.plan import RankPlan
from accel_rl.run.run_folder import RunFolder
from accel_rl.settings.resolved import resolve
from accel_rl.settings.train import TrainConfig
from accel_rl.training.build_trainer import build_trainer
from accel_rl.training.callback import Callback, Training
from accel_rl.training.observers import Observers
from tests.golden.runs import RANKS, RUNS

FILE = Path(__file__).parent / "curves.json"
NAMES = ("loss", "grad_norm", "score")
RTOL, ATOL = 2e-3, 2e-4  # Rounding differs between CPUs, which add numbers in different orders.
Curves = dict[str, list[float]]


def measure(name: str) -> Curves:
    """Return the run's curves {"loss": [...], "grad_norm": [...], "score": [...]}. A curve has one value per update,
    or, for a run with ranks, per row of metrics.csv.

    A missing score in a curve is NaN.
    """
    with tempfile.TemporaryDirectory() as folder:
        if name in RANKS:
            return _of_ranks(RANKS[name], Path(folder) / "run")
        with _own_threads():
            return _of_trainer(RUNS[name], Path(folder) / "run")


class Recorded(Callback):
    """A callback that records the curves of a run."""

    def __init__(self) -> None:
        self.curves: Curves = {name: [] for name in NAMES}

    def on_update(self, training: Training, updates: list[UpdateMetrics]) -> None:
        for metrics in updates:
            values = {**metrics.means(), "score": training.score}
            for name, curve in self.curves.items():
                curve.append(values[name])


def _of_trainer(config: TrainConfig, folder: Path) -> Curves:
    config, recorded = resolve(config), Recorded()
    observers = Observers(callbacks=(recorded,))
    build_trainer(config, RankPlan.resolve(config), RunFolder.create(folder, config), observers=observers).run()
    return recorded.curves


def _of_ranks(flags: tuple[str, ...], folder: Path) -> Curves:
    from tests.integration.runs import run

    words = ("--env", "CartPole-v1", "--engine", "in-process", "--envs", 8, "--horizon", 8, "--torch-threads", 1)
    words += ("--evaluation.interval", 0, "--checkpoint.interval", 0, "--log.interval", 64, "--env-steps", 64 * 12)
    done = run("train", *flags, *words, "--seed", 1, "--device", "cpu", "--run-dir", folder)
    assert done.returncode == 0, done.stderr
    with open(folder / "metrics.csv", newline="") as f:
        table = list(csv.DictReader(f))
    return {name: [float(row[name] or "nan") for row in table] for name in NAMES}


@contextlib.contextmanager
def _own_threads() -> Iterator[None]:
    """Restore, at the end, torch's number of threads and the CPU affinity of the process, which a trainer changes."""
    threads, cores = torch.get_num_threads(), os.sched_getaffinity(0)
    try:
        yield
    finally:
        torch.set_num_threads(threads)
        os.sched_setaffinity(0, cores)


def stored() -> dict[str, Curves]:
    return dict(json.loads(FILE.read_text())) if FILE.exists() else {}


def differences(expected: Curves, found: Curves) -> list[str]:
    """Return one line for each curve that differs from the stored curve, with the values at the first difference."""
    lines = []
    for name in NAMES:
        a, b = np.array(expected.get(name, []), float), np.array(found[name], float)
        if a.shape != b.shape:
            lines.append(f"{name}: {len(a)} values are stored, {len(b)} were measured")
            continue
        # The tolerance grows with the mean absolute value of the curve, because a loss may cross zero.
        size = float(np.abs(a[np.isfinite(a)]).mean()) if np.isfinite(a).any() else 0.0
        near = np.isclose(a, b, rtol=RTOL, atol=ATOL + RTOL * size, equal_nan=True)
        if not near.all():
            i = int(np.argmin(near))
            lines.append(
                f"{name}: {a[i]:.6g} is stored for update {i}, {b[i]:.6g} was measured; {(~near).sum()} differ"
            )
    return lines


def main(argv: list[str]) -> int:
    """Compare all curves with the stored curves, or store them with --update. Returns exit code 1 if a curve
    differs."""
    before, measured, differing = stored(), {}, 0
    for name in (*RUNS, *RANKS):
        measured[name] = measure(name)
        lines = differences(before[name], measured[name]) if name in before else ["nothing is stored yet"]
        differing += bool(lines)
        print(f"{name}: {'; '.join(lines) or 'as it was'}", flush=True)
    if argv == ["--update"]:
        rounded = {
            n: {c: [float(f"{x:.6g}") for x in xs] for c, xs in curves.items()} for n, curves in measured.items()
        }
        FILE.write_text(json.dumps(rounded, indent=None, separators=(",", ":")).replace('},"', '},\n"') + "\n")
        return 0
    return int(differing > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
