"""A sweep can run in the machine's idle time (--idle), and its processes can be paused.

`accel-rl sweep EXPERIMENT --idle` runs only while no other program needs the cores. `accel-rl sweep --pause FOLDER`
stops every process of the sweep (SIGSTOP), whose memory stays allocated. `accel-rl sweep --unpause FOLDER` continues a
paused sweep.
"""

import contextlib
import json
import os
import signal
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import psutil

from accel_rl.config.train import TrainConfig
from accel_rl.sweeps.sweep_folder import SweepFolder
from accel_rl.system.errors import ConfigError
from accel_rl.system.hardware import say_once

TIMEOUT_S = 3600.0
"""With --idle, timeouts of worker processes and ranks are at least `TIMEOUT_S` seconds, because other programs may use
all cores for minutes."""
PAUSED = "paused.json"
"""The file paused.json of a paused sweep lists [process id, creation time] of each stopped process."""


def patient(config: TrainConfig) -> TrainConfig:
    """Return a run's settings with timeouts of at least TIMEOUT_S, because the run's processes may get no CPU time for
    minutes."""
    sampler = replace(config.sampler, timeout_s=max(config.sampler.timeout_s, TIMEOUT_S))
    distributed = replace(config.distributed, timeout_s=max(config.distributed.timeout_s, TIMEOUT_S))
    return replace(config, sampler=sampler, distributed=distributed)


def use_idle_time() -> None:
    """Put this process and its future child processes into the idle scheduling class. If the system has no such class,
    set the nice value 19."""
    if hasattr(os, "SCHED_IDLE"):
        os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
        return
    os.nice(19)
    say_once("--idle: this system has no idle scheduling class, so the runs have the lowest priority (nice 19)")


def pause(folder: SweepFolder) -> str:
    """Stop every process of the sweep that is running in a folder, and return a message for the user."""
    if (holder := folder.holder()) is None:
        raise ConfigError(f"--pause {folder.path}: no sweep is running there; resume one with --resume {folder.path}")
    try:
        sweep = psutil.Process(holder)
    except psutil.NoSuchProcess:
        raise ConfigError(
            f"--pause {folder.path}: its sweep was killed; continue it with --resume {folder.path}"
        ) from None
    # The sweep's own process is stopped first, because it would start further runs.
    stopped: dict[int, float] = {}
    while result := [p for p in [sweep, *sweep.children(recursive=True)] if p.pid not in stopped]:
        for process in result:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.suspend()
                stopped[process.pid] = process.create_time()
    folder.write(PAUSED, list(stopped.items()))
    return f"{folder.path}: {len(stopped)} processes are stopped; continue with accel-rl sweep --unpause {folder.path}"


def unpause(folder: SweepFolder) -> str:
    """Continue the processes that `pause` has stopped, and return a message for the user."""
    paused = _paused(folder.path)
    if not paused:
        raise ConfigError(f"--unpause {folder.path}: no sweep is paused there")
    for process in reversed(paused):  # The sweep's own process is continued after all other processes.
        with contextlib.suppress(psutil.NoSuchProcess):
            process.resume()
    (folder.path / PAUSED).unlink(missing_ok=True)
    return f"{folder.path}: {len(paused)} processes continue"


def release(folder: SweepFolder) -> None:
    """Continue the paused runs of a sweep that has been killed, so that the runs save checkpoints and end."""
    paused = _paused(folder.path)
    (folder.path / PAUSED).unlink(missing_ok=True)
    if not paused or (holder := folder.holder()) is None or psutil.pid_exists(holder):
        return
    for process in paused:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.send_signal(signal.SIGTERM)
            process.resume()
    deadline = time.monotonic() + 60
    while folder.holder() is not None and time.monotonic() < deadline:
        time.sleep(0.1)


def _paused(path: Path) -> Sequence[psutil.Process]:
    """Return the sweep's paused processes that still exist. The sweep's own process is the first."""
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
