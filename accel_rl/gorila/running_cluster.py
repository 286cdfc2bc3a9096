"""Connecting to a Ray cluster that runs already."""

import os
import re
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from accel_rl.gorila.session import NAMESPACE, load_ray
from accel_rl.system.errors import ConfigError, RunError

AUTO = "auto"
ALLOWED = f"{AUTO} (RAY_ADDRESS, or the cluster of this machine) or HOST:PORT"
CONNECT_S = 10.0  # time in which a host must accept a connection


def check_address(address: str) -> None:
    """Raise ConfigError for what is no address."""
    if address != AUTO and re.fullmatch(r"[^\s/]+:\d{1,5}", address) is None:
        raise ConfigError(f"--address {address}: must be {ALLOWED}")


@contextmanager
def cluster_ray(address: str) -> Iterator[Any]:
    """Connect to a running Ray cluster and yield Ray's module; disconnect afterwards. ConfigError, RunError.

    address: "auto", or "HOST:PORT" of the head node. The cluster goes on afterwards, without this process's actors.
    Whether calls need a token is the cluster's choice. Ray reads the token from RAY_AUTH_MODE and RAY_AUTH_TOKEN.
    """
    check_address(address)
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    ray = load_ray()
    if ray.is_initialized():
        raise RunError("Ray runs in this process already")
    found = _find(ray, address)
    _check_host(address, found)
    _check_token(ray, address, found)
    try:
        ray.init(found, namespace=NAMESPACE, log_to_driver=False, logging_level="ERROR")
    except (RuntimeError, OSError) as e:  # also another version of Ray or Python
        ray.shutdown()
        raise _no(address, str(e)) from e
    try:
        yield ray
    finally:
        ray.shutdown()


def _no(address: str, reason: str) -> ConfigError:
    return ConfigError(f"--address {address}: {' '.join(reason.split())[:300]}")


def _find(ray: Any, address: str) -> str:
    """Return HOST:PORT of the cluster. ConfigError."""
    if address != AUTO:
        return address
    try:
        return str(ray._private.services.canonicalize_bootstrap_address_or_die(address))
    except ConnectionError as e:
        raise _no(address, "no Ray cluster runs on this machine; `ray start --head` starts one") from e


def _check_host(address: str, found: str) -> None:
    """Raise ConfigError if nothing listens. Ray itself would try for minutes."""
    host, _, port = found.rpartition(":")
    try:
        socket.create_connection((host.strip("[]"), int(port)), CONNECT_S).close()
    except (OSError, OverflowError) as e:
        raise _no(address, f"no Ray cluster answers at {found}: {e}") from e


def _check_token(ray: Any, address: str, found: str) -> None:
    """Raise ConfigError if the cluster refuses this process's token, or does not answer."""
    try:
        with _without_stderr():  # the C++ library writes its own lines
            ray._raylet.GcsClient(address=found)
    except ray.exceptions.AuthenticationError as e:
        given = "RAY_AUTH_TOKEN is not the cluster's" if os.environ.get("RAY_AUTH_MODE") == "token" else "none is given"
        wanted = "set RAY_AUTH_MODE=token and RAY_AUTH_TOKEN to the cluster's"
        raise _no(address, f"the cluster at {found} needs a token, and {given}; {wanted}") from e
    except ray.exceptions.RaySystemError as e:
        raise _no(address, f"{found} does not answer as a Ray cluster: {e}") from e


@contextmanager
def _without_stderr() -> Iterator[None]:
    kept, null = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(null, 2)
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(null)
