"""A rollout as arrays, for the global replay."""

from typing import Any

import torch

from accel_rl.data.rollout import Rollout
from accel_rl.gorila.arrays import tensor_over

_FIELDS = ("frames", "age", "action", "reward", "terminated", "truncated", "ended", "valid")


def to_message(rollout: Rollout) -> dict[str, Any]:
    """Return what a replay stores of a rollout. Of the final frames, only those of episodes that ended are sent."""
    host = rollout.on_host
    message = {name: getattr(host, name).numpy() for name in _FIELDS}
    return {**message, "final": host.final_frames[host.ended].numpy(), "stack": host.stack}


def from_message(message: dict[str, Any]) -> Rollout:
    """The inverse of `to_message`; where no episode ended, the final frames are zeros."""
    arrays: dict[str, Any] = {name: tensor_over(message[name]) for name in _FIELDS}
    final = tensor_over(message["final"])
    T, B = arrays["action"].shape
    final_frames = torch.zeros((T, B, *final.shape[1:]), dtype=final.dtype)
    final_frames[arrays["ended"]] = final
    return Rollout(**arrays, final_frames=final_frames, stack=message["stack"])
