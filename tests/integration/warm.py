"""Runs of accel-rl in forks of a process that has imported torch: each saves almost two seconds of imports.

The process has one thread while it forks. It serves one run at a time, and ends with the tests.
"""

import atexit
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import traceback
from typing import Any

_server: list[tuple[subprocess.Popen, socket.socket]] = []


def run(args: list[str], timeout_s: float, cwd: Any = None, env: dict[str, str] | None = None) -> Any:
    """As `subprocess.run` of accel-rl with these arguments, with its output as text."""
    _, connection = _started()
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        request = {"args": args, "cwd": str(cwd or os.getcwd()), "env": {**(os.environ if env is None else env)}}
        connection.settimeout(30)
        socket.send_fds(connection, [_framed(request)], [out.fileno(), err.fileno()])
        pid = _received(connection)
        connection.settimeout(timeout_s)
        try:
            code = _received(connection)
        except TimeoutError:
            os.kill(pid, signal.SIGKILL)
            connection.settimeout(30)
            _received(connection)
            raise subprocess.TimeoutExpired(args, timeout_s, _text(out), _text(err)) from None
        return subprocess.CompletedProcess(args, code, _text(out), _text(err))


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


def _started() -> tuple[subprocess.Popen, socket.socket]:
    if not _server:
        ours, theirs = socket.socketpair()
        command = [sys.executable, "-m", "tests.integration.warm", str(theirs.fileno())]
        process = subprocess.Popen(command, pass_fds=[theirs.fileno()], stdin=subprocess.DEVNULL)
        theirs.close()
        _server.append((process, ours))
        atexit.register(_end)
    return _server[0]


def _end() -> None:
    process, connection = _server.pop()
    connection.close()
    process.wait(10)


def serve(connection: socket.socket) -> None:
    """Fork a process for each request, until the connection is closed."""
    from accel_rl.system.process import before_torch

    before_torch()
    import gymnasium  # noqa: F401

    import accel_rl.cli.train_command
    import accel_rl.runners.trainer  # noqa: F401

    while True:
        head, fds, _, _ = socket.recv_fds(connection, 4, 2)
        if not head:
            return
        request = json.loads(_exactly(connection, int.from_bytes(head + _exactly(connection, 4 - len(head)), "big")))
        pid = os.fork()
        if not pid:
            connection.close()
            _run(request, *fds)
        for fd in fds:
            os.close(fd)
        connection.sendall(_framed(pid))
        _, status = os.waitpid(pid, 0)
        connection.sendall(_framed(os.waitstatus_to_exitcode(status)))


def _run(request: dict[str, Any], out: int, err: int) -> None:
    """Become the run's process."""
    code = 1
    try:
        with open(os.devnull) as nothing:
            for source, target in ((nothing.fileno(), 0), (out, 1), (err, 2)):
                os.dup2(source, target)
        os.chdir(request["cwd"])
        os.environ.clear()
        os.environ.update(request["env"])
        paths = [p for p in request["env"].get("PYTHONPATH", "").split(os.pathsep) if p]
        sys.path[:] = [request["cwd"], *paths, *sys.path[1:]]
        sys.argv = ["accel-rl", *request["args"]]
        from accel_rl.cli.main import main

        code = main()
    except SystemExit as e:
        code = e.code if isinstance(e.code, int) else int(e.code is not None)
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


if __name__ == "__main__":
    with socket.socket(fileno=int(sys.argv[1])) as given:
        serve(given)
