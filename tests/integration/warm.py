"""Runs programs in forks of a process that has imported torch, which saves two seconds of imports per program.

The process that is forked has only one thread, and ends when the tests end.
"""

import atexit
import contextlib
import importlib
import json
import os
import runpy
import select
import signal
import socket
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from tests.cli.random_command_lines import exit_with

ROOT = Path(__file__).parents[2]
_MODULES = (
    "gymnasium.envs.classic_control", "accel_rl.cli.train_command", "accel_rl.api.resume", "accel_rl.algos.ppo",
    "accel_rl.samplers.in_process", "accel_rl.kernels.native", "rich.console", "safetensors.torch",
)  # fmt: skip
"""The modules of a small run, which are imported once, before processes are forked."""
_server: list[tuple[subprocess.Popen, socket.socket]] = []


class Forked:
    """A program in a forked process, with the methods of `subprocess.Popen`, which writes its output to files."""

    def __init__(
        self, module: str, args: list[str], cwd: Any = None, env: Any = None, start_new_session: bool = False,
        stdout: Any = None, stderr: Any = None,
    ):  # fmt: skip
        """Start `python -m module args`. The argument `module` may also be the path of a script, or "-c" with code in
        `args`."""
        self.args, self.returncode = [module, *args], None
        self._out, self._err = stdout or tempfile.TemporaryFile(), stderr or tempfile.TemporaryFile()  # noqa: SIM115
        self._status, theirs = socket.socketpair()
        request = {
            "module": module, "args": args, "cwd": str(cwd or os.getcwd()),
            "env": dict(os.environ if env is None else env), "session": start_new_session,
        }  # fmt: skip
        socket.send_fds(_started(), [_framed(request)], [self._out.fileno(), self._err.fileno(), theirs.fileno()])
        theirs.close()
        self._status.settimeout(60)
        self.pid = _received(self._status)

    def poll(self) -> int | None:
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.wait(0)
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        if self.returncode is None:
            poll = select.poll()
            poll.register(self._status, select.POLLIN)
            if not poll.poll(None if timeout is None else 1e3 * timeout):
                raise subprocess.TimeoutExpired(self.args, timeout or 0.0)
            self.returncode = _received(self._status)
            self._status.close()
        return self.returncode

    def communicate(self, timeout: float | None = None) -> tuple[str, str]:
        self.wait(timeout)
        return _text(self._out), _text(self._err)

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


def run(module: str, args: list[str], timeout_s: float, **options: Any) -> subprocess.CompletedProcess:
    """Run `python -m module args` in a fork to its end, and return the result with the output as text."""
    process = Forked(module, args, **options)
    try:
        out, err = process.communicate(timeout_s)
    finally:
        process.kill()
    return subprocess.CompletedProcess(process.args, process.returncode, out, err)


def _text(file: Any) -> str:
    file.seek(0)
    return file.read().decode()


def _framed(value: Any) -> bytes:
    data = json.dumps(value).encode()
    return len(data).to_bytes(4, "big") + data


def _received(connection: socket.socket) -> Any:
    return json.loads(_exactly(connection, int.from_bytes(_exactly(connection, 4), "big")))


def _exactly(connection: socket.socket, n: int) -> bytes:
    data = b""
    while len(data) < n:
        if not (block := connection.recv(n - len(data))):
            raise EOFError("the warm process is gone")
        data += block
    return data


def _started() -> socket.socket:
    if not _server:
        ours, theirs = socket.socketpair()
        command = [sys.executable, "-m", "tests.integration.warm", str(theirs.fileno())]
        process = subprocess.Popen(command, cwd=ROOT, pass_fds=[theirs.fileno()], stdin=subprocess.DEVNULL)
        theirs.close()
        _server.append((process, ours))
        atexit.register(_end)
    return _server[0][1]


def _end() -> None:
    process, connection = _server.pop()
    connection.close()
    process.wait(10)


def serve(connection: socket.socket) -> None:
    """Fork a process for each request on the connection, and report the end of each forked process, until the
    connection is closed."""
    from accel_rl.processes.process import before_torch

    before_torch()
    for module in _MODULES:
        importlib.import_module(module)
    statuses: dict[int, socket.socket] = {}
    ended, wakes = os.pipe()
    for fd in (ended, wakes):
        os.set_blocking(fd, False)
    signal.signal(signal.SIGCHLD, lambda *_: None)  # for set_wakeup_fd
    signal.set_wakeup_fd(wakes)
    while True:
        ready = select.select([connection, ended], [], [])[0]
        if ended in ready:
            os.read(ended, 4096)
            for pid, status in list(statuses.items()):
                if (end := os.waitpid(pid, os.WNOHANG))[0]:
                    # `sendall` fails if the test that started the program has ended.
                    with statuses.pop(pid), contextlib.suppress(OSError):
                        status.sendall(_framed(os.waitstatus_to_exitcode(end[1])))
        if connection in ready:
            head, fds, _, _ = socket.recv_fds(connection, 4, 3)
            if not head:
                return
            head += _exactly(connection, 4 - len(head))
            request = json.loads(_exactly(connection, int.from_bytes(head, "big")))
            status = socket.socket(fileno=fds[2])
            if not (pid := os.fork()):
                signal.set_wakeup_fd(-1)
                signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                for other in (connection, *statuses.values()):
                    other.close()
                for fd in (ended, wakes):
                    os.close(fd)
                exit_with(lambda request=request, fds=fds, status=status: _run(request, fds, status))
            statuses[pid] = status
            for fd in fds[:2]:
                os.close(fd)


def _run(request: dict[str, Any], fds: list[int], status: socket.socket) -> int:
    """Send the process id, and run the requested program in this process."""
    if request["session"]:
        os.setsid()
    with open(os.devnull) as nothing:
        for source, target in ((nothing.fileno(), 0), (fds[0], 1), (fds[1], 2)):
            os.dup2(source, target)
    for fd in fds[:2]:
        os.close(fd)
    with status:
        status.sendall(_framed(os.getpid()))
    os.chdir(request["cwd"])
    os.environ.clear()
    os.environ.update(request["env"])
    paths = [p for p in request["env"].get("PYTHONPATH", "").split(os.pathsep) if p]
    module, args = request["module"], request["args"]
    first = os.path.dirname(os.path.abspath(module)) if module.endswith(".py") else request["cwd"]
    sys.path[:] = [first, *paths, *sys.path[1:]]
    sys.argv = [module, *args]
    if module == "-c":
        exec(args[0], {"__name__": "__main__"})
    elif module.endswith(".py"):
        runpy.run_path(module, run_name="__main__")
    else:
        runpy.run_module(module, run_name="__main__", alter_sys=True)
    return 0


if __name__ == "__main__":
    with socket.socket(fileno=int(sys.argv[1])) as given:
        serve(given)
