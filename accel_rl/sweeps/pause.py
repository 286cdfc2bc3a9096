"""Pause and continue the processes of a sweep.

`accel-rl sweep --pause FOLDER` stops every process of the sweep (SIGSTOP). The processes keep their memory. `accel-rl
sweep --unpause FOLDER` continues a paused sweep. This module does not import torch, so that a pause takes effect within
a second.
"""

import contextlib
import json
import signal
import time
from collections.abc import Sequence
from pathlib import Path

import psutil

from accel_rl.files import folder_lock
from accel_rl.files.durable_files import write_durably
from accel_rl.text.errors import ConfigError

PAUSED = "paused.json"
"""A file in the folder of a paused sweep, which lists [process id, creation time] of each stopped process."""


def pause(folder: Path) -> str:
    """Stop every process of the sweep that is running in a folder, and return a message for the user."""
    if (holder := folder_lock.holder(folder)) is None:
        raise ConfigError(f"--pause {folder}: no sweep is running there; resume one with --resume {folder}")
    try:
        sweep = psutil.Process(holder.pid)
    except psutil.NoSuchProcess:
        raise ConfigError(f"--pause {folder}: its sweep was killed; continue it with --resume {folder}") from None
    # The sweep's own process is stopped first, because it would start further runs.
    stopped: dict[int, float] = {}
    while result := [p for p in [sweep, *sweep.children(recursive=True)] if p.pid not in stopped]:
        for process in result:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.suspend()
                stopped[process.pid] = process.create_time()
    write_durably(folder / PAUSED, json.dumps(list(stopped.items())).encode() + b"\n")
    return f"{folder}: {len(stopped)} processes are stopped; continue with accel-rl sweep --unpause {folder}"


def unpause(folder: Path) -> str:
    """Continue the processes that `pause` has stopped, and return a message for the user."""
    paused = _paused(folder)
    if not paused:
        raise ConfigError(f"--unpause {folder}: no sweep is paused there")
    for process in reversed(paused):  # The sweep's own process continues last.
        with contextlib.suppress(psutil.NoSuchProcess):
            process.resume()
    (folder / PAUSED).unlink(missing_ok=True)
    return f"{folder}: {len(paused)} processes continue"


def release(folder: Path) -> None:
    """Continue the paused runs of a sweep that has been killed, so that the runs save checkpoints and end."""
    paused = _paused(folder)
    (folder / PAUSED).unlink(missing_ok=True)
    if not paused or (holder := folder_lock.holder(folder)) is None or psutil.pid_exists(holder.pid):
        return
    for process in paused:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.send_signal(signal.SIGTERM)
            process.resume()
    deadline = time.monotonic() + 60
    while folder_lock.holder(folder) is not None and time.monotonic() < deadline:
        time.sleep(0.1)


def _paused(path: Path) -> Sequence[psutil.Process]:
    """Return the sweep's paused processes that still exist, the sweep's own process first."""
    try:
        entries = json.loads((path / PAUSED).read_text())
    except (OSError, ValueError):
        return []
    result = []
    for pid, created in entries:
        with contextlib.suppress(psutil.NoSuchProcess):
            process = psutil.Process(pid)
            if process.create_time() == created:
                result.append(process)
    return result
