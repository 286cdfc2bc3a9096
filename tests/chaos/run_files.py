"""The files of a run that the invariants compare with those of an undisturbed run."""

import csv
import json
from pathlib import Path

from accel_rl.metrics.sinks import WALL_CLOCK


def rows(run: Path) -> list[dict[str, str]]:
    """Return the rows of metrics.csv without the columns of elapsed time."""
    with open(run / "metrics.csv", newline="") as file:
        return [{k: v for k, v in row.items() if k not in WALL_CLOCK} for row in csv.DictReader(file)]


def row_steps(run: Path) -> list[int]:
    """Return the env steps of each row of metrics.csv, or [] if the file cannot be read."""
    try:
        return [int(steps) for row in rows(run) if (steps := row.get("env_steps") or "").isdecimal()]
    except (OSError, UnicodeDecodeError, csv.Error):
        return []


def column(run: Path, name: str) -> list[float]:

    with open(run / "metrics.csv", newline="") as file:
        return [float(row[name]) for row in csv.DictReader(file)]


def checkpoints(run: Path) -> list[Path]:
    """Return the complete checkpoints of a run, from the oldest to the newest."""
    return sorted(p for p in (run / "checkpoints").glob("[0-9]*") if (p / "MANIFEST.json").exists())


def newest(run: Path) -> int:
    """Return the env steps of the newest checkpoint, or 0 without a checkpoint."""
    return max((int(path.name) for path in checkpoints(run)), default=0)


def rank_folders(run: Path) -> list[Path]:
    """Return the folders with the ranks' parts of the checkpoints, beginning with the run folder for rank 0."""
    return [run, *sorted((run / "ranks").glob("[0-9]*"))]


def final_files(run: Path) -> dict[str, bytes]:
    """Return all files of a run that a fault must not change, by name: every rank's newest checkpoint with its
    segments, the best networks, and the evaluations."""
    files: dict[str, bytes] = {}
    for folder in (*rank_folders(run), run / "best", run / "best-training"):
        files |= _state(run, folder)
    return files | {f"evaluations/{path.name}": path.read_bytes() for path in (run / "evaluations").glob("*.json")}


def _state(run: Path, folder: Path) -> dict[str, bytes]:
    """Return the files of the newest checkpoint in a folder. Times are removed from the manifest."""
    files: dict[str, bytes] = {}
    for checkpoint in checkpoints(folder)[-1:]:
        files = {path.name: path.read_bytes() for path in checkpoint.iterdir()}
        manifest = json.loads(files["MANIFEST.json"])
        files["MANIFEST.json"] = json.dumps({**manifest, "time": 0, "checksum": 0}).encode()
        files = {f"{checkpoint.relative_to(run)}/{file}": data for file, data in files.items()}
        for segment in manifest.get("segments", []):
            files[f"{folder.relative_to(run)}/segments/{segment}"] = (folder / "segments" / segment).read_bytes()
    return files
