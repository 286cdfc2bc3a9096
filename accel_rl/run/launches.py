"""A run's launches.json records the command, the machine and the versions of every launch, at the run's start and at
each resume.

A resume that changes settings records the old and the new value of each changed setting. Each launch also records the
git revision of the user's files, and saves uncommitted changes in changes-N.diff, where N is the number of the launch.
"""

import json
import os
import platform
import shlex
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from accel_rl.files.durable_files import write_durably
from accel_rl.machine import hardware
from accel_rl.run.run_folder import RunFolder, git, git_revision, versions

FILE = "launches.json"
MOST = 1 << 20  # A saved diff of the source code has at most 1 MiB.
PUBLIC = ("time", "env_steps", "git", "cpu", "cores", "gpus", "versions", "settings")
"""Entries of a launch that an exported model may contain: names of hosts, folders and commands stay private."""


def record(run: RunFolder, env_steps: int, changes: Mapping[str, tuple[Any, Any]] | None = None) -> None:
    """`env_steps` is the run's number of env steps at the launch. `changes` maps the settings that the launch changes
    to (old value, new value)."""
    launches = read(run)
    number, folder = len(launches) + 1, Path.cwd()
    launch: dict[str, Any] = {
        "time": time.strftime("%Y-%m-%d %H:%M:%S%z"),
        "env_steps": env_steps,
        "command": shlex.join([Path(sys.argv[0]).name, *sys.argv[1:]]),
        "folder": str(folder),
        "git": git_revision(folder),
        "host": platform.node(),
        "cpu": hardware.cpu_name(),
        "cores": len(hardware.usable_cores()),
        "gpus": hardware.gpu_models(),
        "pid": os.getpid(),
        "versions": versions(),
    }
    if changes:
        launch["settings"] = {name: {"from": old, "to": new} for name, (old, new) in changes.items()}
    if diff := git("diff", "HEAD", folder=folder):
        launch["changes"] = f"changes-{number}.diff"
        write_durably(run.path / launch["changes"], diff[:MOST].encode())
    run.write_json(FILE, [*launches, launch])
    run.write_json("versions.json", launch["versions"])


def read(run: RunFolder) -> list[dict[str, Any]]:
    """The launches, or [] if launches.json is missing or damaged. No run depends on launches.json."""
    try:
        result = json.loads((run.path / FILE).read_text())
    except (OSError, ValueError):
        return []
    return [x for x in result if isinstance(x, dict)] if isinstance(result, list) else []


def parts(launches: Sequence[Mapping[str, Any]], env_steps: float) -> Iterator[tuple[int, float, float]]:
    """(index, first, last) of each launch that made the env steps after `first`, up to `last`. A launch that began from
    a checkpoint replaces all env steps after this checkpoint. `env_steps` is the run's current number of env steps.
    Without launches, the whole run is one part."""
    begins = [float(x.get("env_steps") or 0) for x in launches] or [0.0]
    for i, first in enumerate(begins):
        last = min([*begins[i + 1 :], float(env_steps)])
        if last > first:
            yield i, first, last


def revision(launch: Mapping[str, Any]) -> str:
    """The git revision of accel_rl, or of the user's files if the installed accel_rl has no revision."""
    return str(launch.get("versions", {}).get("git") or launch.get("git") or "")


def machine(launch: Mapping[str, Any]) -> str:
    """The models of the processor and the GPUs."""
    return ", ".join(str(x) for x in (launch.get("cpu"), *launch.get("gpus", [])) if x)


def earlier_values(run: RunFolder, name: str) -> list[Any] | None:
    """The values that a setting had before each of its changes, or None if launches.json cannot be read."""
    launches = read(run)
    return [x["settings"][name]["from"] for x in launches if name in x.get("settings", {})] if launches else None
