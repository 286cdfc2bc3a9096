"""The Optuna study of a search chooses each trial's settings, ends bad runs early, and stores the trials' results."""

import csv
import importlib
import importlib.util
import io
from pathlib import Path
from types import ModuleType
from typing import Any, Literal

from accel_rl.files.durable_files import refuse_link, write_durably
from accel_rl.metrics.plot import read_columns
from accel_rl.text.errors import ConfigError

PERIODS = 20
"""The length of a run is divided into `PERIODS` periods. At the end of each period, its online score is compared with
the scores of other runs at the same number of env steps."""
WARM_UP = 4
"""A run is not pruned during its first `WARM_UP` periods."""
FIRST_TRIALS = 5
"""No run is pruned before `FIRST_TRIALS` runs have ended."""


def optuna() -> ModuleType:
    """Import Optuna, or raise ConfigError if Optuna is not installed."""
    if importlib.util.find_spec("optuna") is None:
        raise ConfigError("Optuna is not installed: pip install 'accel_rl[search]'")
    module = importlib.import_module("optuna")
    module.logging.set_verbosity(module.logging.WARNING)
    return module


class Study:
    """The Optuna study in a folder: study.log contains all trials, and trials.csv lists the trials that have ended.
    Each trial is a training run, and higher scores are better."""

    def __init__(self, folder: Path):
        self._folder, self._optuna = folder, optuna()
        refuse_link(folder / "study.log")
        journal = importlib.import_module("optuna.storages.journal").JournalFileBackend(str(folder / "study.log"))
        self._study = self._optuna.create_study(
            study_name="search",
            storage=self._optuna.storages.JournalStorage(journal),
            load_if_exists=True,
            direction="maximize",
            # With constant_liar, Optuna avoids the settings of running trials.
            sampler=self._optuna.samplers.TPESampler(seed=0, constant_liar=True),
            pruner=self._optuna.pruners.MedianPruner(FIRST_TRIALS, WARM_UP + 1),
        )
        self.ask = self._study.ask

    def trials(self, *states: str) -> list[Any]:
        """Return the trials in the given states, or all, as `optuna.trial.FrozenTrial`."""
        return [t for t in self._study.trials if not states or t.state.name.lower() in states]

    def unfinished(self) -> list[Any]:
        return [self._optuna.trial.Trial(self._study, t._trial_id) for t in self.trials("running")]

    def best(self, n: int) -> list[Any]:
        """Return the n complete trials with the highest scores (or all, if there are fewer), the best first."""
        return sorted(self.trials("complete"), key=lambda t: t.value, reverse=True)[:n]

    def prunes(self, trial: Any, run: Path, length: int) -> bool:
        """Report a run's new online scores to Optuna, and return whether the run should end early: its best score is
        below the median of the other runs' scores at the same number of env steps. `length` is the run's length in env
        steps."""
        steps, scores = read_columns(run, "env_steps", ("score",))["score"]
        known, new = self.trials()[trial.number].intermediate_values, False
        for period in range(1, PERIODS):
            until = length * period / PERIODS
            if period not in known and steps.size and steps[0] <= until <= steps[-1]:
                trial.report(float(scores[steps <= until][-1]), period)
                new = True
        return new and bool(trial.should_prune())

    def ended(self, trial: Any, run: Path, column: str) -> str:
        """Record that a trial has ended with the last score of its run in a column of metrics.csv, and return a text
        with the score. A trial without a score is recorded as failed."""
        _, scores = read_columns(run, "env_steps", (column,))[column]
        if not scores.size:
            return f"{self.end(trial, 'fail')}ed: the run has no {column}"
        self._study.tell(trial, float(scores[-1]))
        self._write()
        return f"score {scores[-1]:.4g}"

    def end(self, trial: Any, state: Literal["fail", "pruned"]) -> str:
        """Record that a trial has ended without a score, and return its state."""
        self._study.tell(trial, state=self._optuna.trial.TrialState[state.upper()])
        self._write()
        return state

    def _write(self) -> None:
        trials = self.trials("complete", "pruned", "fail")
        names = list(dict.fromkeys(name for t in trials for name in t.params))
        text = io.StringIO(newline="")
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(["trial", "state", "score", *names])
        for t in trials:
            state = t.state.name.lower()
            score = named(t.value) if state == "complete" else ""
            writer.writerow([t.number, state, score, *(named(t.params.get(n, "")) for n in names)])
        write_durably(self._folder / "trials.csv", text.getvalue().encode())


def named(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)
