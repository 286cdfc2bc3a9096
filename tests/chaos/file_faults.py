"""Random faults that concern files: damaged files, two processes in one folder, full disks, power failures."""

import contextlib
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

from tests.chaos import invariants
from tests.chaos.invariants import Violation
from tests.chaos.modes import ENV_STEPS
from tests.chaos.process_faults import kill
from tests.chaos.trial import Trial

DAMAGES = ("flip", "truncate", "zeros", "delete", "folder", "link", "empty", "append")


def damage(t: Trial) -> None:
    """Kill the run and damage one of its files. The resumed run must end with an error of one line, or equal the
    undisturbed run."""
    process = t.train()
    if t.moment(process):
        kill(t, process)
    t.wait(process)
    files = [p for p in sorted(t.run.rglob("*")) if p.is_file()]
    if not t.checkpoints():
        t.finish()
        return
    needed = sorted([*t.checkpoints()[-1].iterdir(), *(t.run / "segments").glob("*"), t.run / "metrics.csv"])
    path = t.rng.choice(t.rng.choice((files, needed, needed)))
    kind = t.rng.choice(("flip", t.rng.choice(DAMAGES)))
    t.hit(f"{kind} {path.relative_to(t.run)}")
    t.progresses = False
    _damage(t, path, kind)
    # Rows of metrics.csv may be missing, because the damage may change a setting or the file itself.
    t.whole_rows = False
    t.same = t.same and path.name != "config.json"
    t.incomparable |= {path.relative_to(t.run).parts[0]} - {"checkpoints", "segments", "ranks"}
    before = t.output()
    if t.wait(t.resume(), (0, 1, 2)) == 0:
        if path.name in ("metrics.csv", "config.json"):
            invariants.check_surroundings(t)
        else:
            invariants.check_end(t)
        return
    lines = t.output()[len(before) :].strip().splitlines()
    if len(lines) > 4:
        raise Violation("wrong", f"{len(lines)} lines instead of one: {lines[-1]}")
    invariants.check_surroundings(t)
    # After damage to a checkpoint, --checkpoint can resume the run from another checkpoint.
    others = [c for c in t.checkpoints() if c not in path.parents and c != path]
    is_finished = bool(others) and int(others[-1].name) >= ENV_STEPS
    if path.name != "config.json" and "checkpoints" in path.parts and others and not is_finished:
        t.wait(t.resume(checkpoint=others[-1]), (0,))
        invariants.check_end(t)


def _damage(t: Trial, path: Path, kind: str) -> None:
    content = path.read_bytes()
    match kind:
        case "flip" if content:
            i = t.rng.randrange(len(content))
            path.write_bytes(content[:i] + bytes([content[i] ^ 1 << t.rng.randrange(8)]) + content[i + 1 :])
        case "truncate":
            path.write_bytes(content[: t.rng.randrange(len(content) + 1)])
        case "zeros":
            path.write_bytes(bytes(len(content)))
        case "append":
            path.write_bytes(content + t.rng.randbytes(t.rng.randint(1, 100)))
        case "empty" | "flip":
            path.write_bytes(b"")
        case "delete":
            path.unlink()
        case "folder":
            path.unlink()
            path.mkdir()
        case "link":  # The user's file outside the run folder must not change.
            path.unlink()
            path.symlink_to(t.folder / "outside" / "rows-0000000000000000.safetensors")


def go_back(t: Trial) -> None:
    """Resume the run from an older checkpoint, kill the resumed run, and resume the run again."""
    t.wait(t.train(), (0,))
    older = t.rng.choice(t.checkpoints()[:-1])
    t.told.append(f"back to {int(older.name)}")
    process = t.resume(checkpoint=older)
    if t.moment(process):
        kill(t, process)
    t.wait(process)
    t.finish()


def two_processes(t: Trial) -> None:
    """Let two processes resume a run at the same time: one process trains the run, and the other ends with exit code
    2."""
    process = t.train()
    if not t.moment(process):
        t.finish()
        return
    t.stop(process, signal.SIGTERM)
    both = [t.resume(), t.resume()]
    t.hit("two resumes")
    codes = sorted(t.wait(p) for p in both)
    # Both exit codes are 0 if the second process began after the first process had ended.
    if codes not in ([0, 2], [0, 0]) or len(t.resumes()) > 1:
        raise Violation("wrong", f"exit codes {codes}, not 0 and 2; resumed at {t.resumes()}")
    invariants.check_end(t)


def moved(t: Trial) -> None:
    """Rename or remove the run folder while the run trains."""
    process = t.train()
    if not t.moment(process):
        t.finish_undisturbed(process)
        return
    original, elsewhere = t.run, t.folder / "elsewhere"
    original.rename(elsewhere)
    t.run = elsewhere
    # The exit code may be 0 if the last checkpoint was written before the folder was removed.
    is_complete = (elsewhere / "checkpoints" / f"{ENV_STEPS:012d}").exists()
    if removed := t.rng.random() < 0.3:
        t.progresses = False
        while elsewhere.exists():  # rmtree may fail while the run writes files.
            shutil.rmtree(elsewhere, ignore_errors=True)
    t.hit("removed" if removed else "moved")
    t.incomparable.add("best-training")  # A run whose folder was moved saves a checkpoint and ends.
    code = t.wait(process, (0, 1) if is_complete or not removed else (1,))
    if original.exists() and not (original / "config.json").exists():
        raise Violation("wrong", f"a folder without config.json took the place of the run (exit code {code})")
    if not removed:
        t.finish()
    invariants.check_surroundings(t)


def full_disk(t: Trial) -> None:
    """Fill the disk at a random moment. After the run has ended, free the disk and resume the run."""
    with _mounted(t, ["-t", "tmpfs", "-o", "size=64m", "tmpfs"]) as disk:
        t.run = disk / "run"
        process = t.train()
        if t.moment(process):
            _fill(disk / "filler", left=t.rng.choice((0, 0, 4_096, 65_536)))
            t.hit("disk full")
        t.wait(process, (0, 1))
        (disk / "filler").unlink(missing_ok=True)
        t.finish()


def _fill(path: Path, left: int) -> None:
    for size in (1 << 20, 4_096):
        with open(path, "ab", buffering=0) as file, contextlib.suppress(OSError):
            while True:
                file.write(bytes(size))
    os.truncate(path, max(0, path.stat().st_size - left))


def power_failure(t: Trial) -> None:
    """Simulate a power failure: kill the run, and resume it with only the data that ext4 had written to the disk."""
    image, copy = t.folder / "image", t.folder / "copy"
    with open(image, "wb") as file:
        file.truncate(128 << 20)
    subprocess.run(["mkfs.ext4", "-q", "-F", str(image)], check=True, capture_output=True)
    with _mounted(t, ["-t", "ext4", "-o", "loop,commit=60", str(image)]) as disk:
        t.run = disk / "run"
        process = t.train()
        t.moment(process)
        n = len(t.checkpoints())
        time.sleep(1)  # Wait until the newest checkpoint is synced to the disk.
        shutil.copyfile(image, copy)
        process.kill()
        t.wait(process)
    with _mounted(t, ["-t", "ext4", "-o", "loop", str(copy)]):
        t.hit(f"{len(t.checkpoints())} of {n} checkpoints on the device")
        if len(t.checkpoints()) < n:
            raise Violation("lost", f"{len(t.checkpoints())} of {n} checkpoints were durable")
        if n:
            t.finish()
        else:  # A run without a checkpoint may be lost.
            t.missed("before the first checkpoint")


@contextlib.contextmanager
def _mounted(t: Trial, options: list[str]) -> Iterator[Path]:
    """Mount a file system at the folder `disk` in the trial's folder, and unmount it at the end."""
    disk = t.folder / "disk"
    disk.mkdir(exist_ok=True)
    subprocess.run(["mount", *options, str(disk)], check=True, capture_output=True)
    try:
        yield disk
    finally:
        t.leftovers.kill()
        subprocess.run(["umount", "-l", str(disk)], check=True)


def can_mount() -> str:
    """Return the reason why file systems cannot be mounted, or ""."""
    if os.geteuid() != 0:
        return "mounting a file system needs root"
    missing = [name for name in ("mount", "mkfs.ext4") if shutil.which(name) is None]
    return f"{missing[0]} is not installed" if missing else ""


def descriptors(t: Trial) -> None:
    """Start a run with some of the file descriptors 0, 1 and 2 closed, or redirected to /dev/full."""
    closed = [n for n in range(3) if t.rng.random() < 0.6]
    full = [n for n in (1, 2) if n not in closed and t.rng.random() < 0.5]
    redirections = " ".join([*(f"{n}>&-" for n in closed), *(f"{n}>/dev/full" for n in full)])
    t.hit(redirections or "none")
    t.acted = bool(redirections)
    t.wrap = ["bash", "-c", f'exec "$@" {redirections}', "-"]
    t.finish_undisturbed(t.train())
