"""The form in which messages of the parameter server go through a socket: JSON, then the tensors' bytes. No pickle.

8 bytes: length of the JSON | JSON of the message, with each tensor's type and shape | all tensors' bytes, in order
"""

import hashlib
import hmac
import json
import secrets
import socket
import struct
from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from accel_rl.gorila.messages import (
    AccumulatedPush,
    Pulled,
    Push,
    ShardCounts,
    Snapshot,
    Version,
)
from accel_rl.optim.accumulated import Accumulated

_MESSAGES = (Version, Push, Accumulated, AccumulatedPush, Pulled, ShardCounts, Snapshot)
_TYPES: dict[str, Any] = {t.__name__: t for t in _MESSAGES}
_LENGTH = struct.Struct("<Q")
_JOINED = 1 << 16  # bytes up to which a message is one packet
_NONCE = 32  # bytes


def _plain(x: Any, tensors: list[Any]) -> Any:
    """Return the JSON of a message, and append its tensors' bytes."""
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
    """The inverse of `_plain`. Tensors are received in the order of the JSON."""
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
    """Send a message of numbers, strings, lists, dicts, tensors and `parameter_server.messages`. OSError."""
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
    """Wait for a message and return it; tuples arrive as lists. OSError, also at the end of the connection."""
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
    """Return whether the other side knows the token, which is not sent. OSError."""
    nonce = secrets.token_bytes(_NONCE)
    s.sendall(nonce)
    return hmac.compare_digest(_receive(s, _NONCE), _proof(token, nonce))


def answer_challenge(s: socket.socket, token: str) -> None:
    """Prove to the other side that this side knows the token. OSError."""
    s.sendall(_proof(token, _receive(s, _NONCE)))


def _proof(token: str, nonce: bytes) -> bytes:
    return hmac.new(token.encode(), nonce, hashlib.sha256).digest()
