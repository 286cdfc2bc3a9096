"""This module reports the trials of hyperparameter searches as a table and as plots."""

import importlib.util
import logging
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from accel_rl.metrics.plot import picture
from accel_rl.results.table import Table
from accel_rl.results.trained_run import TrainedRun

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Search:
    """The ended trials of a search, an Optuna study."""

    name: str
    study: Any

    def table(self) -> Table:
        """Return a row for each ended trial, in the order of their scores. Trials without a score are listed last."""
        ended = [t for t in self.study.trials if t.state.is_finished()]
        settings = list(dict.fromkeys(name for t in ended for name in t.params))
        scores = {t.number: t.value for t in ended if t.state.name == "COMPLETE"}
        ended.sort(key=lambda t: -scores.get(t.number, -float("inf")))
        rows = [
            [str(t.number), t.state.name.lower(), *map(_text, (scores.get(t.number), *map(t.params.get, settings)))]
            for t in ended
        ]
        return Table(f"search_{self.name}", f"Search: {self.name}", ["trial", "state", "score", *settings], rows)

    def drawn(self) -> bytes:
        """Plot the score against each searched setting, with a point for each complete trial."""
        import matplotlib
        from matplotlib import pyplot
        from optuna.visualization.matplotlib import plot_slice

        # Optuna would change matplotlib's style for all later plots, and warns that its plot is experimental.
        matplotlib.use("Agg")
        with pyplot.rc_context(), warnings.catch_warnings(action="ignore"):
            plot_slice(self.study, target_name="score")
            figure = pyplot.gcf()
            pyplot.close(figure)
            return picture(figure)


def searches(runs: Sequence[TrainedRun]) -> list[Search]:
    """Read the searches (`accel-rl search`) to which the given runs belong."""
    folders = dict.fromkeys(run.path.parent for run in runs if run.path)
    searched = [folder for folder in folders if (folder / "study.log").exists()]
    if searched and importlib.util.find_spec("optuna") is None:
        logger.warning("the report leaves out the trials of searches: pip install 'accel_rl[search]'")
        return []
    return [_read(folder) for folder in searched]


def _read(folder: Path) -> Search:
    import optuna
    from optuna.storages.journal import JournalFileBackend

    storage = optuna.storages.JournalStorage(JournalFileBackend(str(folder / "study.log")))
    return Search(folder.name, optuna.load_study(study_name="search", storage=storage))


def _text(value: Any) -> str:
    return "" if value is None else f"{value:.4g}" if isinstance(value, float) else str(value)
