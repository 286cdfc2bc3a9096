"""The command `accel-rl sweep --prune FOLDER` removes the earlier checkpoints of a sweep's finished runs."""

from pathlib import Path

from accel_rl.checkpoints.checkpoint import Checkpoints, load
from accel_rl.sweeps.sweep_folder import SweepFolder
from accel_rl.system.counts import counted


def prune(folder: SweepFolder, dry_run: bool = False) -> list[str]:
    """Remove all checkpoints of each finished run except the newest, with which the network and the run's state are
    kept. Return a line for each pruned run, and a line with the sum of bytes.

    With `dry_run`, nothing is removed. Raises ConfigError if the sweep is running, or if a newest checkpoint is
    damaged; the checkpoints of that run are then untouched.
    """
    folder.check_free()
    lines, total = [], 0
    for name in folder.names:
        run = folder.run(name)
        checkpoints = Checkpoints(run / "checkpoints")
        *earlier, newest = checkpoints.steps() or [0]
        if not earlier or not folder.finished(name, folder.env_steps(name)):
            continue
        load(checkpoints.path(newest))
        n_bytes = sum(_size(checkpoints.path(steps)) for steps in earlier)
        if not dry_run:
            segments = _size(run / "segments")
            checkpoints.remove(earlier)
            n_bytes += segments - _size(run / "segments")
        total += n_bytes
        lines.append(
            f"{name}: {counted(len(earlier), 'checkpoint')} before {newest:,} env steps, {n_bytes / 1e6:.1f} MB"
        )
    end = "would be removed, and the replay's segments that only they have" if dry_run else "removed"
    return [*lines, f"{folder.path}: {counted(len(lines), 'run')}, {total / 1e6:.1f} MB {end}"]


def _size(folder: Path) -> int:
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())
