"""A nested state is stored as JSON and tensors. A state may contain dicts, lists, numbers, text, tensors, arrays, bytes
and segments, and is stored without pickle."""

import json
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor

from accel_rl.checkpoints.tensor_file import Segment, load, save
from accel_rl.text.errors import ConfigError

# In the JSON, {"__ref__": [kind, name]} refers to an entry of the tensor file, or represents a dict by its pairs.
_REF = "__ref__"


def copied(tree: Any, later: Callable[[Segment], Segment]) -> Any:
    """A copy of a state in host memory, which does not change with the state. Segments are not copied, but replaced by
    `later(segment)`, in the order in which `encode` stores them."""
    if isinstance(tree, Tensor):
        return tree.detach().to("cpu", copy=True, memory_format=torch.contiguous_format)
    if isinstance(tree, np.ndarray):
        return tree.copy(order="C")
    if isinstance(tree, Segment):
        return later(tree)
    if isinstance(tree, dict):
        return {key: copied(value, later) for key, value in _in_order(tree)}
    if isinstance(tree, list | tuple):
        return [copied(value, later) for value in tree]
    return tree


def _in_order(node: dict[Any, Any]) -> list[tuple[Any, Any]]:
    if any(type(key) not in (int, str) for key in node):  # `encode` refuses keys that are neither int nor str.
        return list(node.items())
    return sorted(node.items(), key=lambda pair: (isinstance(pair[0], str), pair[0]))


def encode(tree: dict[str, Any], put: Callable[[Segment], str] | None = None) -> tuple[bytes, bytes]:
    """The bytes of a JSON file and of a safetensors file. Equal states always have equal bytes.

    `put` stores a segment and returns its checksum, which the JSON contains together with the segment's name. The keys
    of dicts are texts, or whole numbers as in the state of torch's optimizers. Raises ConfigError, with a message of
    one line, for a value that cannot be saved.
    """
    tensors: dict[str, Tensor] = {}

    def ref(kind: str, path: str, tensor: Tensor) -> dict[str, Any]:
        path = f"{len(tensors)}{path}"  # A number makes the tensor's name unique, because keys may contain slashes.
        tensors[path] = tensor.detach().cpu().contiguous().clone()
        return {_REF: [kind, path]}

    def walk(node: Any, path: str) -> Any:
        if isinstance(node, Tensor):
            return ref("tensor", path, node)
        if isinstance(node, Segment):
            assert put is not None, f"{path}: nowhere to put a segment"
            return {_REF: ["segment", node.name, put(node)]}
        if isinstance(node, np.ndarray):
            return ref("array", path, torch.from_numpy(node.copy(order="C")))
        if isinstance(node, bytes):
            # The length is stored before the bytes, because some readers of safetensors reject an empty tensor.
            return ref(
                "bytes", path, torch.frombuffer(bytearray(len(node).to_bytes(8, "little") + node), dtype=torch.uint8)
            )
        if isinstance(node, dict):
            if _REF not in node and all(isinstance(k, str) for k in node):
                return {k: walk(v, f"{path}/{k}") for k, v in _in_order(node)}
            if odd := [k for k in node if type(k) not in (int, str)]:
                raise ConfigError(f"state {path[1:]}: the key {odd[0]!r} must be a text or a whole number")
            return {_REF: ["dict", [[k, walk(v, f"{path}/{k}")] for k, v in _in_order(node)]]}
        if isinstance(node, list | tuple):
            return [walk(v, f"{path}/{i}") for i, v in enumerate(node)]
        if isinstance(node, np.generic):
            return node.item()
        if node is not None and type(node) not in (bool, int, float, str):
            raise ConfigError(
                f"state {path[1:]} is a {type(node).__name__}: must be made of dicts, lists, numbers, texts, tensors, "
                "arrays and bytes"
            )
        return node

    text = json.dumps(walk(tree, ""), indent=1, sort_keys=True).encode()
    return text, save(tensors)


def decode(text: bytes, tensor_file: bytes, get: Callable[[str, str], Segment] | None = None) -> dict[str, Any]:
    """Inverse of `encode`. `get` returns a segment by name and checksum. Raises ValueError for malformed input."""
    try:
        tree, tensors = json.loads(text), load(tensor_file)
    except Exception as e:
        raise ValueError(f"unreadable state: {e}") from e

    def walk(node: Any) -> Any:
        if isinstance(node, dict) and _REF in node:
            kind, name, *checksum = node[_REF]
            if kind == "dict":
                return {k: walk(v) for k, v in name}
            if kind == "segment":
                if get is None or len(checksum) != 1 or not isinstance(checksum[0], str):
                    raise ValueError(f"unreadable state: segment {name}")
                return get(name, checksum[0])
            tensor = tensors[name]
            if kind == "tensor":
                return tensor
            array = tensor.numpy()
            if kind == "array":
                return array
            data, size = array.tobytes()[8:], int.from_bytes(array[:8].tobytes(), "little")
            if kind != "bytes" or len(data) != size:
                raise ValueError(f"unreadable state: {name} is {kind} of {len(data)} bytes, not {size}")
            return data
        if isinstance(node, dict):
            return {k: walk(v) for k, v in node.items()}
        if isinstance(node, list):
            return [walk(v) for v in node]
        return node

    try:
        if not isinstance(tree, dict):
            raise TypeError("its top level is no object")
        return walk(tree)
    except (KeyError, TypeError) as e:
        raise ValueError(f"unreadable state: {e}") from e
