"""The socket over which the main process and a worker process exchange infrequent messages. A message is JSON,
optionally followed by bytes."""

import json
import socket
import struct
from typing import Any

from accel_rl.samplers.workers.messages import MESSAGES, Reply, Request, WorkerSetup


class Disconnected(Exception):
    """The other process has closed the connection."""


class Control:
    """One end of the socket between the main process and a worker."""

    def __init__(self, sock: socket.socket):
        self.sock = sock

    def fileno(self) -> int:
        return self.sock.fileno()

    def send(self, message: WorkerSetup | Request | Reply, blob: bytes = b"") -> None:
        """Raises Disconnected."""
        fields = {name: getattr(message, name) for name in message.__slots__}
        body = json.dumps([type(message).__name__, fields]).encode()
        try:
            self.sock.sendall(struct.pack("<QQ", len(body), len(blob)) + body + blob)
        except OSError as e:
            raise Disconnected from e

    def receive(self, timeout_s: float | None = None) -> tuple[Any, bytes]:
        """Wait for a message, and return it with its bytes. Raises Disconnected if the connection is closed, or after
        timeout_s."""
        if timeout_s is not None:
            self.sock.settimeout(timeout_s)
        n, m = struct.unpack("<QQ", self._exactly(16))
        name, fields = json.loads(self._exactly(n))
        message = MESSAGES[name](**fields), self._exactly(m)
        if timeout_s is not None:
            self.sock.settimeout(None)
        return message

    def _exactly(self, n: int) -> bytes:
        parts, left = [], n
        while left:
            try:
                part = self.sock.recv(min(left, 1 << 20))
            except OSError as e:
                raise Disconnected from e
            if not part:
                raise Disconnected
            parts.append(part)
            left -= len(part)
        return b"".join(parts)

    def close(self) -> None:
        self.sock.close()
