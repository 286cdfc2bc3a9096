"""Starts programs that are killed at the end of this process, together with all their child processes."""

import os
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from accel_rl.processes.guard import Guard


@contextmanager
def guarded(
    command: Sequence[str], env: Mapping[str, str] = os.environ, **options: Any
) -> Iterator["subprocess.Popen[bytes]"]:
    """Start a program in a new session of processes. The program and all processes that it has started are killed at
    the end of the context, or at the end of this process, even by SIGKILL."""
    guard = Guard()
    try:
        variables = {**env, **guard.variables("program")}
        process = subprocess.Popen(command, env=variables, start_new_session=True, **options)
        try:
            yield process
        finally:
            guard.kill("program")
            process.wait()
    finally:
        guard.close()
