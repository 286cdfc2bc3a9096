"""A shard that learners call through sockets."""

import contextlib
import secrets
import socket
import threading
from typing import Any, NamedTuple, get_args

from accel_rl.gorila.shard import Shard
from accel_rl.gorila.transport import Method
from accel_rl.gorila.wire import challenge, receive, send

METHODS = get_args(Method)
TOKEN_S = 10.0  # time in which a new connection must prove that it knows the token


class Endpoint(NamedTuple):
    """Where a shard is called."""

    host: str
    port: int
    token: str
    """Secret that callers must know."""


class ShardServer:
    """Carries out calls one after the other: those of each connection in their order, and those of this process."""

    def __init__(self, shard: Shard, address: str):
        """address: of the network interface to listen on; nothing listens on others."""
        self._shard, self._lock = shard, threading.Lock()
        self._socket = socket.create_server((address, 0), backlog=128)
        self.endpoint = Endpoint(address, self._socket.getsockname()[1], secrets.token_hex(32))
        threading.Thread(target=self._accept, daemon=True).start()

    def call(self, method: Method, *arguments: Any) -> Any:
        with self._lock:
            return getattr(self._shard, method)(*arguments)

    def close(self) -> None:
        """Refuse new connections."""
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):  # closed
            while True:
                connection, _ = self._socket.accept()
                threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        with connection, contextlib.suppress(OSError):  # the caller has gone
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            connection.settimeout(TOKEN_S)
            if not challenge(connection, self.endpoint.token):
                return
            connection.settimeout(None)
            while True:
                method, arguments = receive(connection)
                send(connection, self._answered(method, arguments))

    def _answered(self, method: Any, arguments: list[Any]) -> list[Any]:
        """Return ["answer", answer], or [name of the error, its text]."""
        try:
            if method not in METHODS:
                raise ValueError(f"a shard has no method {method!r}")
            return ["answer", self.call(method, *arguments)]
        except Exception as e:
            return [type(e).__name__, str(e)]
