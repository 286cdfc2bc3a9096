"""The interface between a report and the papers. Each paper's folder names the module of its `Paper` in `REPORT`, so no
list of papers exists."""

import importlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache

from accel_rl.results.run_settings import Settings
from accel_rl.results.section import Section
from accel_rl.results.table import Table
from accel_rl.results.trained_run import BySetting, TrainedRun
from accel_rl.settings.registry import PAPERS, papers


@dataclass(frozen=True)
class Paper:
    """`sections` returns the report's sections: the paper's tables and figures to which the given runs belong.
    `published_tables` returns the tables with only the numbers in the paper. `hours` returns the hours for 50 M env
    steps that the paper reports for a run with the given settings, or None. `hours_note` describes the paper's machine.
    `differences` returns the settings in which a run differs from the paper's run, and `run_name` returns the run's
    name in the paper's figures, or ""."""

    name: str
    year: int
    sections: Callable[[Sequence[TrainedRun], BySetting], list[Section]]
    published_tables: Callable[[], list[Table]] = list
    hours: Callable[[Settings], float | None] | None = None
    hours_note: str = ""
    differences: Callable[[Settings], list[str]] = lambda settings: []
    run_name: Callable[[Settings], str] = lambda settings: ""


@cache
def reported_papers() -> tuple[Paper, ...]:
    """The papers with results to compare, the earliest first."""
    named = [getattr(importlib.import_module(f"{PAPERS}.{name}"), "REPORT", "") for name in papers()]
    result: list[Paper] = [importlib.import_module(module).PAPER for module in filter(None, named)]
    return tuple(sorted(result, key=lambda paper: paper.year))
