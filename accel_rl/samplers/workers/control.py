"""The rare messages between the main process and a worker."""

import json
import socket
import struct
from typing import Any


class Disconnected(Exception):
    """The peer is gone."""


class Control:
    """The rare messages: one JSON object and an optional blob at a time."""

    def __init__(self, sock: socket.socket):
        self.sock = sock

    def fileno(self) -> int:
        return self.sock.fileno()

    def send(self, message: dict[str, Any], blob: bytes = b"") -> None:
        body = json.dumps(message).encode()
        try:
            self.sock.sendall(struct.pack("<QQ", len(body), len(blob)) + body + blob)
        except OSError as e:
            raise Disconnected from e

    def receive(self) -> tuple[dict[str, Any], bytes]:
        n, m = struct.unpack("<QQ", self._exactly(16))
        return json.loads(self._exactly(n)), self._exactly(m)

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
