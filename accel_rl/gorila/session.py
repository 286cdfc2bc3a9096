"""A Ray session: one on this machine alone, or that of a running cluster."""

import importlib.util
import os
import secrets
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from accel_rl.gorila.watcher import marked, watched
from accel_rl.system.errors import ConfigError, RunError

INSTALL = "pip install 'accel_rl[cluster]'"
LOOPBACK = "127.0.0.1"
NAMESPACE = "accel_rl"
# Without "clusters", Ray takes loopback for the machine's address.
_CONFINED = {"RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0", "RAY_AUTH_MODE": "token"}


def check_ray() -> None:
    """Raise ConfigError, one line, where Ray is not installed. Does not import it."""
    if importlib.util.find_spec("ray") is None:
        raise ConfigError(f"Ray is not installed: {INSTALL}")


def load_ray() -> Any:
    """Import Ray. ConfigError, one line, where it is not installed."""
    try:
        import ray
    except ImportError as e:
        raise ConfigError(f"Ray is not installed: {INSTALL}") from e
    return ray


def _load_confined() -> Any:
    """Import Ray with loopback for the machine's address, and with a token. It reads both when it is imported."""
    if not _CONFINED.items() <= os.environ.items():
        if sys.modules.get("ray") is not None:
            raise RunError("Ray was imported before its session was confined to this machine; start a new process")
        os.environ.update(_CONFINED)
    os.environ.setdefault("RAY_AUTH_TOKEN", secrets.token_hex(32))  # Ray keeps the first one for the process's life
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    os.environ.setdefault("RAY_worker_niceness", "0")  # Ray's default of 15 lets all other programs go first
    return load_ray()


@contextmanager
def local_ray(cpus: int = 2, object_store_bytes: int = 512 << 20) -> Iterator[Any]:
    """Start Ray and yield its module; end it and remove its files afterwards. ConfigError, RunError.

    All of Ray's ports listen on loopback, and every call needs a random token, which this process and Ray's own
    processes have in their environment. cpus: number of cores that Ray may plan with. object_store_bytes: size of the
    memory through which processes exchange large arrays; it holds those in flight and those not freed yet, and calls
    stall for a second or more while it is full.

    If this process is killed, a watcher process kills what is left of Ray within seconds, and removes its files.
    """
    with session(cpus, object_store_bytes) as (ray, _):
        yield ray


@contextmanager
def session(cpus: int, object_store_bytes: int) -> Iterator[tuple[Any, str]]:
    """Like `local_ray`; also yields the session's folder."""
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
            yield ray, folder
        finally:
            ray.shutdown()
