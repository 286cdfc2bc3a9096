"""Runs that stand beside one published number, and in which settings they differ from it."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from accel_rl.report.families import Settings
from accel_rl.report.run import Run

MARK = "*"
"""Follows an own number of runs that differ from the paper's settings."""

Differences = Callable[[Settings], list[str]]
"""The settings in which a run of these settings differs from those of its published number."""


@dataclass(frozen=True)
class Alike:
    """Runs beside one published number: all with its settings, or none. mark: "" or MARK."""

    runs: Sequence[Run]
    mark: str


def alike(runs: Sequence[Run], differences: Differences) -> Alike:
    """Return the runs with the settings of the published number; if there are none, all of them, marked."""
    same = [r for r in runs if not differences(r.settings)]
    return Alike(same, "") if same else Alike(runs, MARK)


def marked(groups: Iterable[Alike], differences: Differences) -> str:
    """Return the sentences for a table's note about its marked numbers; "" if there are none."""
    return sentence([r for group in groups if group.mark for r in group.runs], differences)


def sentence(runs: Iterable[Run], differences: Differences, head: str = f"{MARK} differs from the paper") -> str:
    """Return the differences of runs by setting, for a note; "" if there are none."""
    texts = {run.setting: ", ".join(found) for run in runs if (found := differences(run.settings))}
    return f" {head}: {'; '.join(f'{label}: {text}' for label, text in texts.items())}." if texts else ""
