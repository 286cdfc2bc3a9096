"""The transport between learners and shards through sockets."""

import queue
import socket
import threading
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from accel_rl.gorila.shard_server import Endpoint
from accel_rl.gorila.transport import Future, Method, ShardUnavailable
from accel_rl.gorila.wire import answer_challenge, receive, send

Locate = Callable[[str], Endpoint | None]
"""Returns where the server of the shard of this name is, or None while there is none."""
CONNECT_S = 10.0
SILENT_S = 20  # a host that sends nothing for so long, not even acknowledgements, is gone


class SocketTransport:
    """Calls shards through a connection to each. A thread for each shard sends a call and waits for its answer.

    If a connection is lost, the call that was under way is lost; the next call locates the shard and connects again.
    """

    def __init__(self, names: Sequence[str], locate: Locate):
        self._shards = [_Caller(name, locate) for name in names]

    @property
    def shards(self) -> int:
        return len(self._shards)

    def call(self, shard: int, method: Method, *arguments: Any) -> Future:
        return self._shards[shard].call(method, arguments)

    def close(self) -> None:
        """End the connections, after the calls that were made."""
        for shard in self._shards:
            shard.calls.put(None)


class SocketCall:
    """A call that is sent, carried out and answered in the background."""

    def __init__(self, name: str):
        self._name, self._over = name, threading.Event()
        self._answer: Any = None
        self._error: Exception | None = None

    def end(self, answer: Any = None, error: Exception | None = None) -> None:
        self._answer, self._error = answer, error
        self._over.set()

    def done(self) -> bool:
        return self._over.is_set()

    def result(self, timeout_s: float) -> Any:
        if not self._over.wait(timeout_s):
            raise ShardUnavailable(f"{self._name} has not answered within {timeout_s:g} s")
        if self._error is not None:
            raise self._error
        return self._answer


class _Request(NamedTuple):
    message: list[Any]
    call: SocketCall


class _Caller:
    """The connection to one shard, and its thread."""

    def __init__(self, name: str, locate: Locate):
        self.name, self._locate = name, locate
        self.calls: queue.SimpleQueue[_Request | None] = queue.SimpleQueue()
        self._socket: socket.socket | None = None
        self._thread: threading.Thread | None = None

    def call(self, method: Method, arguments: tuple[Any, ...]) -> SocketCall:
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, daemon=True)
            self._thread.start()
        call = SocketCall(self.name)
        self.calls.put(_Request([method, list(arguments)], call))
        return call

    def _run(self) -> None:
        while (request := self.calls.get()) is not None:
            try:
                kind, answer = self._asked(request.message)
            except OSError as e:
                self._disconnect()
                request.call.end(error=ShardUnavailable(f"{self.name} is gone: {e}"))
            except Exception as e:
                self._disconnect()  # what is left on the connection is unknown
                request.call.end(error=e)
            else:
                if kind == "answer":
                    request.call.end(answer)
                else:
                    request.call.end(error=ValueError(answer) if kind == "ValueError" else RuntimeError(answer))
            del request  # its tensors
        self._disconnect()

    def _asked(self, message: list[Any]) -> Any:
        if self._socket is None:
            self._socket = self._connected()
        send(self._socket, message)
        return receive(self._socket)

    def _connected(self) -> socket.socket:
        """Connect to the shard. OSError."""
        endpoint = self._locate(self.name)
        if endpoint is None:
            raise ConnectionRefusedError("there is no shard of this name")
        s = socket.create_connection((endpoint.host, endpoint.port), CONNECT_S)
        try:
            answer_challenge(s, endpoint.token)
            s.settimeout(None)
            s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            s.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            for option, value in (("TCP_KEEPIDLE", 5), ("TCP_KEEPINTVL", 5), ("TCP_KEEPCNT", 3)):
                if hasattr(socket, option):
                    s.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), value)
            if hasattr(socket, "TCP_USER_TIMEOUT"):
                s.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, 1000 * SILENT_S)
        except BaseException:
            s.close()
            raise
        return s

    def _disconnect(self) -> None:
        if self._socket is not None:
            self._socket.close()
            self._socket = None
