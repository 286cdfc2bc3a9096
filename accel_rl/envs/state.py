"""The saved state of an environment consists of magic bytes, a JSON header, a blob and a checksum, without pickle."""

import json
import zlib
from typing import Any

MAGIC = b"accel_rl.env.1\n"  # The version of the format is part of the magic bytes.
_LENGTH = 4  # The header's length and the checksum have 4 little-endian bytes each.


def pack(header: dict[str, Any], blob: bytes = b"") -> bytes:
    """Return magic | header length | header (JSON) | blob | CRC-32 of all previous bytes."""
    text = json.dumps(header).encode()
    body = MAGIC + len(text).to_bytes(_LENGTH, "little") + text + blob
    return body + zlib.crc32(body).to_bytes(_LENGTH, "little")


def unpack(state: bytes, **expected: Any) -> tuple[dict[str, Any], bytes]:
    """Return the header and the blob of a saved state. Raises ValueError for foreign or corrupt bytes, or a header that
    differs from `expected`."""
    state = bytes(state)
    start = len(MAGIC) + _LENGTH
    if not state.startswith(MAGIC) or len(state) < start + _LENGTH:
        raise ValueError("not the state of an environment (wrong magic)")
    body, checksum = state[:-_LENGTH], int.from_bytes(state[-_LENGTH:], "little")
    if zlib.crc32(body) != checksum:
        raise ValueError("the state of an environment is corrupt (wrong checksum)")
    end = start + int.from_bytes(body[len(MAGIC) : start], "little")
    header = json.loads(body[start:end])
    for key, value in expected.items():
        if header.get(key) != value:
            raise ValueError(f"the state is of {key}={header.get(key)!r}, this environment has {value!r}")
    return header, body[end:]
