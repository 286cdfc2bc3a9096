"""A run that continues from a checkpoint moves the files of its abandoned part to a folder abandoned-1, abandoned-2 ...
Without this move, the best network or an evaluation could belong to the abandoned part of the run, which metrics.csv no
longer contains."""

import json
from collections.abc import Iterator
from pathlib import Path

from accel_rl.checkpoints.checkpoint import Checkpoints
from accel_rl.run.run_folder import RunFolder
from accel_rl.text.counts import counted
from accel_rl.text.output import print_text

NUMBERED = ("evaluations", "best/checkpoints", "best-training/checkpoints", "videos")
"""Folders whose files and subfolders are named by env steps."""


def rewind(run: RunFolder, env_steps: int, chosen: bool) -> None:
    """Move all files that were written after the checkpoint at `env_steps`, from which the run continues. With
    `chosen`, the user has chosen this checkpoint; later checkpoints of all ranks are then moved too, so that no resume
    continues from them. For each kind of moved files, a line is written to stdout and events.log."""
    lines = []
    for folder in (run.path, *sorted((run.path / "ranks").glob("*"))) if chosen else ():
        if later := Checkpoints(folder / "checkpoints").set_aside(env_steps):
            what = f"{counted(len(later), 'later checkpoint')} (up to {later[-1]:,} env steps)"
            lines.append(f"{what} moved to {folder}/abandoned-...")
    derived = list(_derived(run.path, env_steps))
    if derived:
        aside = _aside(run.path, has_checkpoints=bool(lines))
        for file in derived:
            target = aside / file.relative_to(run.path)
            target.parent.mkdir(parents=True, exist_ok=True)
            file.rename(target)
        lines.append(f"{counted(len(derived), 'file')} of later evaluations, networks and videos moved to {aside}")
    for line in lines:
        print_text(f"{line}, because the run continues from {env_steps:,} env steps")
        run.event(f"{line}, because the run continues from {env_steps:,} env steps")


def _derived(run: Path, env_steps: int) -> Iterator[Path]:
    for name in NUMBERED:
        for path in sorted((run / name).glob("[0-9]*")):
            if path.stem.isdecimal() and int(path.stem) > env_steps:
                yield path
    for path in sorted((run / "final").glob("*.json")):
        try:
            later = json.loads(path.read_text())["env_steps"] > env_steps
        except (OSError, ValueError, LookupError, TypeError):
            later = False  # accel_rl did not write this file.
        if later:
            yield path


def _aside(run: Path, has_checkpoints: bool) -> Path:
    """The folder abandoned-N of this rewind. The folder already exists if checkpoints were moved."""
    n = len(list(run.glob("abandoned-*")))
    return run / f"abandoned-{n if has_checkpoints else n + 1}"
