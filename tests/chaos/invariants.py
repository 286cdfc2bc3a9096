"""Checks of a trial's files and processes: after each of its commands, and when its run has reached its end."""

from itertools import pairwise
from typing import TYPE_CHECKING

from tests.chaos import run_files
from tests.chaos.modes import CHECKPOINT_STEPS, ENV_STEPS

if TYPE_CHECKING:
    from tests.chaos.trial import Trial


class Violation(Exception):
    """A failed check of a trial. `kind` is "lost", "hung" or "wrong"."""

    def __init__(self, kind: str, text: str) -> None:
        super().__init__(text)
        self.kind = kind


def due(steps: list[int], in_background: bool = False) -> int:
    """Return the env steps of the newest checkpoint that must be complete if metrics.csv has rows at the env steps
    `steps`.

    The checkpoint at the last row of metrics.csv may be unfinished. If checkpoints are written in the background, the
    previous checkpoint may also be unfinished. Earlier checkpoints must be complete, because only one checkpoint is
    written at a time.
    """
    saves = [b for a, b in pairwise([0, *steps]) if b // CHECKPOINT_STEPS > a // CHECKPOINT_STEPS]
    complete = [0, *(save for save in saves if save < steps[-1])] if steps else [0]
    return complete[max(-1 - in_background, -len(complete))]


def check_progress(t: "Trial", is_stop: bool = False) -> int:
    """Check that the newest checkpoint of the trial's run is not older than `due` allows.

    With `is_stop`, the run has been stopped by a request, and the newest checkpoint must be at the last row of
    metrics.csv. Return the number of env steps since the newest checkpoint.
    """
    steps, newest = run_files.row_steps(t.run), run_files.newest(t.run)
    last = steps[-1] if steps else 0
    required = last if is_stop else due(steps, t.mode.saves_in_background)
    if newest < required:
        raise Violation(
            "lost",
            f"{last - newest} env steps: the newest checkpoint is at {newest}, the last row at {last}, and "
            + ("a stop saves all" if is_stop else f"a checkpoint was due at {required}"),
        )
    for folder in run_files.rank_folders(t.run)[1:] if t.mode.exact and newest else []:
        if not (folder / "checkpoints" / f"{newest:012d}" / "MANIFEST.json").exists():
            raise Violation("lost", f"{folder.name}: the rank's part of the checkpoint at {newest} is missing")
    return max(0, last - newest)


def check_end(t: "Trial") -> None:
    """Check that a run with exit code 0 is complete. If `t.same` is true, the run must also equal the undisturbed
    run."""
    steps = run_files.row_steps(t.run)
    if steps != sorted(set(steps)):
        raise Violation("wrong", f"the rows of metrics.csv are not ascending: {steps}")
    if run_files.newest(t.run) < ENV_STEPS:
        raise Violation("lost", f"the newest checkpoint is at {run_files.newest(t.run)} of {ENV_STEPS} env steps")
    if not steps or steps[-1] < ENV_STEPS:
        raise Violation("lost", f"metrics.csv ends at {steps[-1] if steps else 0} of {ENV_STEPS} env steps")
    if t.same:
        assert t.reference is not None
        if t.whole_rows and (line := _row_difference(run_files.rows(t.reference), run_files.rows(t.run))):
            raise Violation("lost", line)
        both = [
            {
                name: data
                for name, data in run_files.final_files(run).items()
                if name.split("/")[0] not in t.incomparable
            }
            for run in (t.reference, t.run)
        ]
        if line := _file_difference(*both):
            raise Violation("lost", line)
    check_surroundings(t)


def check_surroundings(t: "Trial") -> None:
    """Check that no process and no name in /dev/shm remains, no file outside the run has changed, and no traceback was
    printed."""
    if left := t.leftovers.wait():
        raise Violation("wrong", f"left behind: {', '.join(left)}")
    if t.leftovers.is_changed():
        raise Violation("lost", "files outside the run folder have changed")
    if not t.tracebacks and "Traceback (most recent call last)" in t.output():
        raise Violation("wrong", "a traceback was printed")


def _row_difference(expected: list[dict[str, str]], resumed: list[dict[str, str]]) -> str:
    """Return a description of the first difference between the rows of two runs, or "" if they are equal."""
    for a, b in zip(expected, resumed, strict=False):
        if a != b:
            name = next(k for k in {**a, **b} if a.get(k) != b.get(k))
            return f"row {a['env_steps']}: {name} is {b.get(name)}, undisturbed {a.get(name)}"
    return "" if len(expected) == len(resumed) else f"{len(resumed)} of {len(expected)} rows"


def _file_difference(expected: dict[str, bytes], resumed: dict[str, bytes]) -> str:
    """Return a description of the first file that differs between two runs, or ""."""
    for name in sorted({*expected, *resumed}):
        if expected.get(name) != resumed.get(name):
            how = "is missing" if name not in resumed else "is new" if name not in expected else "differs"
            return f"{name} {how}, compared with the undisturbed run"
    return ""
