"""Messages of the parameter server with arrays in place of tensors: Ray shares arrays between processes in place."""

import warnings
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from accel_rl.gorila.messages import Pulled, Push


def tensor_over(array: Any) -> Tensor:
    """Return a tensor over an array of Ray's, which is read-only. Shards and learners only read it."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="The given NumPy array is not writable")
        return torch.from_numpy(array)


def with_arrays(message: Any) -> Any:
    """Replace the tensor [n] of a push or an answer to a pull by an array; other messages stay as they are."""
    if isinstance(message, Push):
        return replace(message, gradient=message.gradient.numpy())  # type: ignore[arg-type]
    if isinstance(message, Pulled) and message.parameters is not None:
        return replace(message, parameters=message.parameters.numpy())  # type: ignore[arg-type]
    return message


def with_tensors(message: Any) -> Any:
    """The inverse of `with_arrays`, without a copy."""
    if isinstance(message, Push):
        return replace(message, gradient=tensor_over(message.gradient))
    if isinstance(message, Pulled) and message.parameters is not None:
        return replace(message, parameters=tensor_over(message.parameters))
    return message
