"""Learners call the shards of a parameter server through sockets. This module defines the format of messages, the
server of a shard, and the transport of a learner.

A message consists of JSON, followed by the bytes of its tensors. Pickle is not used.

    8 bytes: length of the JSON | JSON of the message, with each tensor's type and shape | all tensors' bytes, in order
"""

import contextlib
import hashlib
import hmac
import json
import queue
import secrets
import socket
import struct
import threading
from collections.abc import Callable, Sequence
from dataclasses import fields, is_dataclass
from typing import Any, NamedTuple, get_args

import numpy as np
import torch
from torch import Tensor

from accel_rl.gorila.shard import (
    Pulled,
    Push,
    Shard,
    ShardCounts,
    Snapshot,
    Version,
)
from accel_rl.gorila.transport import Future, Method, ShardUnavailable

_MESSAGES = (Version, Push, Pulled, ShardCounts, Snapshot)
_TYPES: dict[str, Any] = {t.__name__: t for t in _MESSAGES}
_LENGTH = struct.Struct("<Q")
_JOINED = 1 << 16  # A message of at most 64 KiB is sent as one packet.
_NONCE = 32  # The number of random bytes that challenge the caller of a new connection


def _plain(x: Any, tensors: list[Any]) -> Any:
    """Convert a message to JSON, and append the message's tensors to `tensors`."""
    if x is None or isinstance(x, (bool, int, float, str)):
        return x
    if isinstance(x, Tensor):
        tensors.append(x.detach().contiguous().reshape(-1).numpy().view(np.uint8))
        return {"tensor": str(x.dtype).removeprefix("torch."), "shape": list(x.shape)}
    if isinstance(x, dict):
        return {"dict": [[_plain(k, tensors), _plain(v, tensors)] for k, v in x.items()]}
    if (name := type(x).__name__) in _TYPES:
        names = [f.name for f in fields(x)] if is_dataclass(x) else x._fields
        return {"type": name, "fields": [_plain(getattr(x, n), tensors) for n in names]}
    if isinstance(x, (list, tuple)):
        return [_plain(y, tensors) for y in x]
    raise TypeError(f"a {type(x).__name__} cannot be sent to a shard")


def _built(x: Any, s: socket.socket) -> Any:
    """Convert JSON to a message, as the inverse of `_plain`, and receive the message's tensors from the socket."""
    if isinstance(x, list):
        return [_built(y, s) for y in x]
    if not isinstance(x, dict):
        return x
    if "tensor" in x:
        tensor = torch.empty(x["shape"], dtype=getattr(torch, x["tensor"]))
        _receive_into(s, tensor.reshape(-1).numpy().view(np.uint8).data)
        return tensor
    if "dict" in x:
        return {_built(k, s): _built(v, s) for k, v in x["dict"]}
    return _TYPES[x["type"]](*[_built(y, s) for y in x["fields"]])


def send(s: socket.socket, message: Any) -> None:
    """Send a message, which may contain numbers, strings, lists, dicts, tensors and the types in `_MESSAGES`. Raises
    OSError."""
    tensors: list[Any] = []
    text = json.dumps(_plain(message, tensors)).encode()
    head = _LENGTH.pack(len(text)) + text
    if sum(len(t) for t in tensors) < _JOINED:
        s.sendall(head + b"".join(t.tobytes() for t in tensors))
        return
    s.sendall(head)
    for t in tensors:
        s.sendall(t)


def receive(s: socket.socket) -> Any:
    """Wait for a message on the socket, and return the message. Tuples in a message are received as lists. Raises
    OSError if the connection fails or ends."""
    length = _LENGTH.unpack(_receive(s, _LENGTH.size))[0]
    return _built(json.loads(_receive(s, length)), s)


def _receive(s: socket.socket, n: int) -> bytes:
    block = bytearray(n)
    _receive_into(s, memoryview(block))
    return bytes(block)


def _receive_into(s: socket.socket, block: memoryview) -> None:
    while len(block):
        if not (n := s.recv_into(block)):
            raise ConnectionResetError("the connection has ended")
        block = block[n:]


def challenge(s: socket.socket, token: str) -> bool:
    """Return whether the other side of the connection proves that it knows the token. The token itself is never
    sent."""
    nonce = secrets.token_bytes(_NONCE)
    s.sendall(nonce)
    return hmac.compare_digest(_receive(s, _NONCE), _proof(token, nonce))


def answer_challenge(s: socket.socket, token: str) -> None:
    """Prove to the other side of the connection that this process knows the token."""
    s.sendall(_proof(token, _receive(s, _NONCE)))


def _proof(token: str, nonce: bytes) -> bytes:
    return hmac.new(token.encode(), nonce, hashlib.sha256).digest()


METHODS = get_args(Method)
TOKEN_S = 10.0  # A new connection must prove within TOKEN_S seconds that it knows the token.


class Endpoint(NamedTuple):
    """An `Endpoint` contains the address of a shard's server, and the token that callers must know."""

    host: str
    port: int
    token: str
    """`token` is the secret that callers of the shard must know."""


class ShardServer:
    """A `ShardServer` executes the calls to a shard one after another."""

    def __init__(self, shard: Shard, address: str):
        """The server listens on a free port of the network address `address`."""
        self._shard, self._lock = shard, threading.Lock()
        self._socket = socket.create_server((address, 0), backlog=128)
        self.endpoint = Endpoint(address, self._socket.getsockname()[1], secrets.token_hex(32))
        threading.Thread(target=self._accept, daemon=True).start()

    def call(self, method: Method, *arguments: Any) -> Any:
        with self._lock:
            return getattr(self._shard, method)(*arguments)

    def close(self) -> None:
        """Close the listening socket, so that new connections are refused. Open connections stay open."""
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                connection, _ = self._socket.accept()
                threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        with connection, contextlib.suppress(OSError):
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            connection.settimeout(TOKEN_S)
            if not challenge(connection, self.endpoint.token):
                return
            connection.settimeout(None)
            while True:
                method, arguments = receive(connection)
                send(connection, self._answered(method, arguments))

    def _answered(self, method: Any, arguments: list[Any]) -> list[Any]:
        """Call a method of the shard. Return ["answer", result], or [type of the error, text of the error]."""
        try:
            if method not in METHODS:
                raise ValueError(f"a shard has no method {method!r}")
            return ["answer", self.call(method, *arguments)]
        except Exception as e:
            return [type(e).__name__, str(e)]


Locate = Callable[[str], Endpoint | None]
"""`Locate` is a function that returns the endpoint of the shard with a given name, or None while this shard is not
running."""
CONNECT_S = 10.0
SILENT_S = 20  # TCP considers a host lost if it has acknowledged nothing for `SILENT_S` seconds.


class SocketTransport:
    """A `SocketTransport` opens one socket connection and starts one thread per shard. The thread sends calls to the
    shard and waits for the answers.

    If the connection to a shard is lost, the current call fails. The next call locates the shard again and opens a new
    connection.
    """

    def __init__(self, names: Sequence[str], locate: Locate):
        self._shards = [_Caller(name, locate) for name in names]

    @property
    def shards(self) -> int:
        return len(self._shards)

    def call(self, shard: int, method: Method, *arguments: Any) -> Future:
        return self._shards[shard].call(method, arguments)

    def close(self) -> None:
        """Close each connection once its pending calls have been answered."""
        for shard in self._shards:
            shard.calls.put(None)


class SocketCall:
    """A `SocketCall` is the `Future` of a call that a background thread sends to a shard."""

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
    """A `_Caller` owns the connection to one shard, and the thread that uses the connection."""

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
                self._disconnect()  # The connection is closed, because its state is unknown after a failed call.
                request.call.end(error=e)
            else:
                if kind == "answer":
                    request.call.end(answer)
                else:
                    request.call.end(error=ValueError(answer) if kind == "ValueError" else RuntimeError(answer))
            del request
        self._disconnect()

    def _asked(self, message: list[Any]) -> Any:
        if self._socket is None:
            self._socket = self._connected()
        send(self._socket, message)
        return receive(self._socket)

    def _connected(self) -> socket.socket:
        """Connect to the shard, or raise OSError."""
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
