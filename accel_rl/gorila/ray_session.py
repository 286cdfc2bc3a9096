"""Start Ray on this machine, or connect to a running Ray cluster.

If the driver of a local Ray session is killed, Ray's agents run for another minute, and the files of Ray are never
removed. If Ray's process on the driver's machine (raylet) is lost, Ray ends the driver without a message. A watcher
process therefore outlives the driver. The watcher reports an unexpected end of the driver, ends the processes of a
local Ray session, and removes the session's files.
"""

import importlib.util
import os
import re
import secrets
import select
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from typing import Any

import psutil

from accel_rl.files.durable_files import remove_folder
from accel_rl.processes import child
from accel_rl.text.errors import ConfigError, RunError

INSTALL = "pip install 'accel_rl[cluster]'"
LOOPBACK = "127.0.0.1"
NAMESPACE = "accel_rl"
# Environment variables that make Ray listen only on the loopback address, and require a token
_CONFINED = {"RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0", "RAY_AUTH_MODE": "token"}


def check_ray() -> None:
    """Raise ConfigError if Ray is not installed, without importing Ray."""
    if importlib.util.find_spec("ray") is None:
        raise ConfigError(f"Ray is not installed: {INSTALL}")


def load_ray() -> Any:
    """Import Ray. Raises ConfigError if Ray is not installed."""
    check_ray()
    import ray

    return ray


def _load_confined() -> Any:
    """Import Ray for this machine only: Ray listens on the loopback address, and requires a token of every caller."""
    if not _CONFINED.items() <= os.environ.items():
        if sys.modules.get("ray") is not None:
            raise RunError("Ray was imported before its session was confined to this machine; start a new process")
        os.environ.update(_CONFINED)
    # A token that is already set is kept, because Ray does not let a process change its token.
    os.environ.setdefault("RAY_AUTH_TOKEN", secrets.token_hex(32))
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    # With Ray's default niceness of 15, Ray's workers would have a lower priority than all other programs.
    os.environ.setdefault("RAY_worker_niceness", "0")
    return load_ray()


def connected(address: str, cores: Sequence[int]) -> AbstractContextManager[Any]:
    """Connect to the Ray cluster at `address`. If `address` is "", start Ray on this machine with as many CPUs as
    `cores`."""
    return cluster_ray(address) if address else local_ray(cpus=len(cores))


@contextmanager
def local_ray(cpus: int = 2, object_store_bytes: int = 512 << 20) -> Iterator[Any]:
    """Start Ray, yield the module ray, and at the end stop Ray and remove Ray's files.

    All of Ray's ports listen on loopback. Every call needs a random token, which only the environment variables of this
    process and of Ray's own processes contain. `cpus` is the number of cores that Ray may assign. `object_store_bytes`
    is the size of the memory through which processes exchange large arrays; calls stall while this memory is full.

    If this process is killed, a watcher process kills Ray's remaining processes within seconds, and removes Ray's
    files.
    """
    ray = _load_confined()
    if ray.is_initialized():
        raise RunError("Ray runs in this process already")
    folder = tempfile.mkdtemp(prefix="accel_rl_ray_")
    with watched(folder):
        try:
            with marked(folder):
                ray.init(
                    num_cpus=cpus,
                    object_store_memory=object_store_bytes,
                    include_dashboard=False,
                    namespace=NAMESPACE,
                    log_to_driver=False,
                    logging_level="ERROR",
                    _node_ip_address=LOOPBACK,
                    _temp_dir=folder,
                )
            yield ray
        finally:
            ray.shutdown()


AUTO = "auto"
ALLOWED = f"{AUTO} (RAY_ADDRESS, or the cluster of this machine) or HOST:PORT"
CONNECT_S = 10.0  # The head node must accept a connection within CONNECT_S seconds.
JOIN = "the cluster must have the same Ray and Python, and may need RAY_AUTH_MODE=token and RAY_AUTH_TOKEN"


def check_address(address: str) -> None:
    """Raise ConfigError for an invalid address of a Ray cluster."""
    if address != AUTO and re.fullmatch(r"[^\s/]+:\d{1,5}", address) is None:
        raise ConfigError(f"--address {address}: must be {ALLOWED}")


@contextmanager
def cluster_ray(address: str) -> Iterator[Any]:
    """Connect to a running Ray cluster, yield the module ray, and disconnect at the end. Raises ConfigError if no
    cluster can be joined at the address.

    `address` is "auto", or "HOST:PORT" of the head node. When this process disconnects, the actors that it has started
    end; the Ray cluster keeps running. If the Ray cluster uses token authentication, set RAY_AUTH_MODE=token and
    RAY_AUTH_TOKEN, which Ray reads.
    """
    check_address(address)
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    # By default, Ray tries to connect 20 times, for 14 minutes if another program listens at the address.
    os.environ.setdefault("RAY_NUM_REDIS_GET_RETRIES", "2")
    ray = load_ray()
    if ray.is_initialized():
        raise RunError("Ray runs in this process already")
    with watched():
        try:
            _check_host(os.environ.get("RAY_ADDRESS", "") if address == AUTO else address)
            ray.init(address, namespace=NAMESPACE, log_to_driver=False, logging_level="ERROR")
        except (RuntimeError, OSError, ValueError, OverflowError) as e:
            ray.shutdown()
            raise ConfigError(f"--address {address}: {' '.join(str(e).split())[:300]}; {JOIN}") from e
        try:
            yield ray
        finally:
            ray.shutdown()


def _check_host(address: str) -> None:
    """Raise OSError if no server listens at HOST:PORT; Ray would try to connect for minutes."""
    host, colon, port = address.rpartition(":")
    if colon:
        socket.create_connection((host.strip("[]"), int(port)), CONNECT_S).close()


START_S = 300.0  # The process of a Ray actor must start within `START_S` seconds, which is enough on a busy machine.
FREE_S = 30.0  # The name of a dead Ray actor can be used again within `FREE_S` seconds.


def start_named(ray: Any, cls: type, name: str, *arguments: Any, **options: Any) -> Any:
    """Start a named Ray actor. Ray neither restarts the actor nor repeats its calls. Raises RunError if another actor
    has the name for more than FREE_S seconds. `options` are Ray's actor options; num_cpus is 0 by default."""
    actor = ray.remote(cls).options(
        name=name, namespace=NAMESPACE, max_restarts=0, max_task_retries=0, **{"num_cpus": 0, **options}
    )
    deadline = time.monotonic() + FREE_S
    while True:
        try:
            return actor.remote(*arguments)
        except ValueError as e:
            if time.monotonic() > deadline:
                raise RunError(f"{name} cannot start: {e}") from e
            time.sleep(0.05)


def beside(ray: Any) -> Any:
    """A Ray scheduling strategy that places an actor on this process's node if the node has free resources."""
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    return NodeAffinitySchedulingStrategy(ray.get_runtime_context().get_node_id(), soft=True)


MARK = "ACCEL_RL_RAY_FOLDER"
"""All processes of a Ray session have this environment variable, which contains the session's folder."""
DRIVER_LOG = "python-core-driver-"
IN_ORDER = b"."  # At a normal end, a driver writes `IN_ORDER` to its watcher process.
GRACE_S = 1.0  # At the end of a session, the processes that still run after GRACE_S seconds are killed.
KILL_S = 20.0  # Killed processes must end within KILL_S seconds.


@contextmanager
def marked(folder: str) -> Iterator[None]:
    """Set environment variables for the processes that Ray starts, so that they belong
    to the session of `folder` and import this copy of accel_rl."""
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
def watched(folder: str = "") -> Iterator[None]:
    """Run a watcher process. The watcher reports if this process dies. `folder` is the folder of a Ray session that
    this process has started, if any. After the `with` block or this process's death, the watcher ends the session and
    removes the folder."""
    read, write = os.pipe()
    try:
        process = subprocess.Popen(
            child.command("accel_rl.gorila.ray_session", str(os.getpid()), str(read), folder),
            pass_fds=(read,),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            env=child.environment(),
            start_new_session=True,  # Ctrl-C does not reach the watcher process.
            cwd="/",
        )
    finally:
        os.close(read)
    try:
        yield
    finally:
        with suppress(BrokenPipeError):
            os.write(write, IN_ORDER)
        os.close(write)
        process.wait()


def members(folder: str) -> set[psutil.Process]:
    result: list[psutil.Process] = []
    for process in psutil.process_iter():
        with suppress(psutil.Error, OSError):
            if _belongs(process, folder):
                result += [process, *process.children(recursive=True)]
    return {p for p in result if _lives(p)}


def _belongs(process: psutil.Process, folder: str) -> bool:
    """Whether a process belongs to a Ray session. A process belongs to the session if its environment contains
    the session's variable. Ray's own processes, which may overwrite their environment, belong to the session if they
    write a log in the session's folder."""
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
    """Wait briefly until a Ray session's processes end, kill the remaining processes, and remove the session's
    folder."""
    # The processes are listed before they end, because child processes cannot be found after their parent has ended.
    known = members(folder)
    psutil.wait_procs(known, GRACE_S)
    deadline = time.monotonic() + KILL_S
    while (left := {p for p in known | members(folder) if _lives(p)}) and time.monotonic() < deadline:
        for process in left:
            with suppress(psutil.Error):
                process.kill()
        time.sleep(0.1)
    remove_folder(folder)


def wait_for_end(parent: int, fd: int) -> bool:
    """Wait until the parent process has written to the pipe `fd` or has died. Return true if the parent has written, as
    it does before a normal end."""
    poll = select.poll()
    poll.register(fd, select.POLLIN | select.POLLHUP)
    # A pidfd detects the parent's death even if a child process of the parent holds the pipe open.
    if hasattr(os, "pidfd_open"):
        with suppress(OSError):
            poll.register(os.pidfd_open(parent), select.POLLIN)
    if os.getppid() == parent:
        poll.poll()
    os.set_blocking(fd, False)
    with suppress(BlockingIOError):
        return os.read(fd, 1) == IN_ORDER
    return False


def main(parent: str, fd: str, folder: str) -> None:
    # The watcher process must survive Ctrl-C and SIGTERM, so that it can end the session.
    for s in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(s, signal.SIG_IGN)
    if not wait_for_end(int(parent), int(fd)):
        why = "was killed, or Ray ended it because Ray's process on this machine (raylet) was lost"
        with suppress(OSError):
            print(f"accel-rl: the run's process {parent} {why}; accel-rl resume continues the run", file=sys.stderr)
    if folder:
        end_session(folder)


if __name__ == "__main__":
    main(*sys.argv[1:])
