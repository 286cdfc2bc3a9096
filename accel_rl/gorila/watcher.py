"""A process that outlives the driver of a Ray session, and ends what is left of the session.

Ray's own processes do not all end with a driver that is killed: agents stay for a minute and files for ever.
"""

import contextlib
import os
import select
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psutil

from accel_rl.system import child

MARK = "ACCEL_RL_RAY_FOLDER"
"""Environment variable of all processes of a session: the session's folder."""
DRIVER_LOG = "python-core-driver-"
GRACE_S = 1.0  # time in which processes may end by themselves
KILL_S = 20.0  # time in which killed processes must have ended


@contextmanager
def marked(folder: str) -> Iterator[None]:
    """Context in which processes that Ray starts belong to the session of a folder, and import this accel_rl."""
    kept = {name: os.environ.get(name) for name in (MARK, "PYTHONPATH")}
    os.environ[MARK] = folder
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, (child.linked(folder), kept["PYTHONPATH"])))
    try:
        yield
    finally:
        for name, value in kept.items():
            os.environ.pop(name)
            if value is not None:
                os.environ[name] = value


@contextmanager
def watched(folder: str) -> Iterator[None]:
    """Watch this process until the end of the context, or its death. Then end the session and remove its folder."""
    read, write = os.pipe()
    try:
        process = subprocess.Popen(
            child.command("accel_rl.gorila.watcher", folder, str(os.getpid()), str(read)),
            pass_fds=(read,),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env=child.environment(),
            start_new_session=True,  # Ctrl-C does not reach the watcher
            cwd="/",
        )
    finally:
        os.close(read)
    try:
        yield
    finally:
        os.close(write)
        process.wait()


def members(folder: str) -> set[psutil.Process]:
    """Return the living processes of a session: those that belong to it, and their descendants."""
    children: dict[int, list[psutil.Process]] = {}
    found: list[psutil.Process] = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error, OSError):
            children.setdefault(process.ppid(), []).append(process)
            if _belongs(process, folder):
                found.append(process)
    seen: set[psutil.Process] = set()
    while found:
        process = found.pop()
        if process not in seen:
            seen.add(process)
            found += children.get(process.pid, [])
    return {p for p in seen if _lives(p)}


def _belongs(process: psutil.Process, folder: str) -> bool:
    """Whether a process has the session's mark, or is one of Ray's that writes a log in the session's folder.

    A process of Ray that sets its title overwrites its environment, which no longer shows the mark. A driver writes a
    log, too, and is not of the session.
    """
    if process.environ().get(MARK) == folder:
        return True
    files = [os.path.basename(f.path) for f in process.open_files() if _is_written(f, folder)]
    return bool(files) and not any(name.startswith(DRIVER_LOG) for name in files)


def _is_written(file: Any, folder: str) -> bool:
    return file.path.startswith(folder + "/") and getattr(file, "mode", "w") != "r"


def _lives(process: psutil.Process) -> bool:
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.Error:
        return False


def end_session(folder: str) -> None:
    """Give the session's processes a moment to end, kill those that have not, and remove the folder."""
    known = members(folder)  # at once: descendants of a process that ends cannot be found later
    deadline = time.monotonic() + GRACE_S
    while any(map(_lives, known)) and time.monotonic() < deadline:
        time.sleep(0.05)
    deadline = time.monotonic() + KILL_S
    while left := [p for p in known | members(folder) if _lives(p)]:
        for process in left:
            with contextlib.suppress(psutil.Error):
                process.kill()
        if time.monotonic() > deadline:
            break
        time.sleep(0.1)
    shutil.rmtree(folder, ignore_errors=True)


def wait_for_end(parent: int, fd: int) -> None:
    """Return when the parent has closed its end of the pipe `fd`, or has died."""
    poll = select.poll()
    poll.register(fd, select.POLLIN | select.POLLHUP)
    # a forked child of the parent may hold its end of the pipe
    if hasattr(os, "pidfd_open"):
        with contextlib.suppress(OSError):
            poll.register(os.pidfd_open(parent), select.POLLIN)
    if os.getppid() == parent:
        poll.poll()


def main(folder: str, parent: str, fd: str) -> None:
    # a job that is told to end still has a session to end
    for s in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(s, signal.SIG_IGN)
    wait_for_end(int(parent), int(fd))
    end_session(folder)


if __name__ == "__main__":
    main(*sys.argv[1:])
