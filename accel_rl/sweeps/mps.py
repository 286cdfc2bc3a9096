"""Runs that share an NVIDIA GPU execute kernels at the same time only under CUDA's Multi-Process Service (MPS)."""

import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from accel_rl.sweeps.layout import Layout

CONTROL = "nvidia-cuda-mps-control"
TIMEOUT_S = 20.0


@contextmanager
def shared_gpus(layout: Layout, say: Callable[[str], None], is_wanted: bool = True) -> Iterator[None]:
    """A context manager that starts MPS, reports this with `say`, and stops MPS at the end. MPS is not started if it is
    not wanted, if no GPU is shared by several runs, or if it is already running. If the sweep is killed by SIGKILL, MPS
    keeps running, and the next sweep uses it."""
    gpus = [[gpu for slot in slots for gpu in slot.gpus] for slots in layout.slots.values()]
    if not is_wanted or not any(len(set(names)) < len(names) for names in gpus):
        yield
        return
    is_started = _start(say)
    try:
        yield
    finally:
        if is_started:
            _control("quit")


def _start(say: Callable[[str], None]) -> bool:
    """Start MPS unless it is running, and return whether it was started."""
    if shutil.which(CONTROL) is None:
        say(f"runs that share a GPU take turns on it: {CONTROL} (CUDA's Multi-Process Service) is not installed")
        return False
    if _control("get_server_list") is None:
        say("CUDA's Multi-Process Service is running already")
        return False
    error = _run(["-d"], "")
    if error is None:
        say("started CUDA's Multi-Process Service for the runs that share a GPU")
    else:
        say(f"runs that share a GPU take turns on it: CUDA's Multi-Process Service cannot be started ({error})")
    return error is None


def _control(command: str) -> str | None:
    return _run([], f"{command}\n")


def _run(arguments: list[str], text: str) -> str | None:
    """Run the MPS control program with the standard input `text`. Return None if it succeeded, and otherwise its
    error."""
    # The output is a file, because a pipe has no end as long as the MPS daemon keeps it open.
    with tempfile.TemporaryFile("w+") as said:
        try:
            done = subprocess.run(
                [CONTROL, *arguments], input=text, stdout=said, stderr=said, text=True, timeout=TIMEOUT_S
            )
        except (OSError, subprocess.TimeoutExpired) as e:
            return " ".join(str(e).split())
        said.seek(0)
        error = " ".join(said.read().split())
    if done.returncode == 0 and "Cannot find MPS control daemon" not in error:
        return None
    return error or f"exit code {done.returncode}"
