"""A rollout's cells as numpy arrays, into which the worker processes write. This module does not import torch."""

from dataclasses import dataclass

import numpy as np

from accel_rl.data.shared_memory import Layout, private_arrays
from accel_rl.data.spec import EnvSpec
from accel_rl.data.step import Step

TENSORS = ("frames", "final_frames", "age", "action", "reward", "terminated", "truncated", "ended", "valid")
"""Names of the arrays that a `Rollout` has as tensors."""
# What an unwritten cell holds, so that reading one is seen.
SENTINEL_ACTION = -1
SENTINEL_REWARD = float("nan")


def rollout_layout(spec: EnvSpec, T: int, B: int, prefix: str = "") -> Layout:
    """Names, dtypes and shapes of a rollout's arrays; `frames` opens with the stack - 1 before the first step."""
    fields: Layout = {
        "frames": (spec.frame_dtype, (spec.stack - 1 + T + 1, B, *spec.frame_shape)),
        "final_frames": (spec.frame_dtype, (T, B, *spec.frame_shape)),
        "age": ("uint8", (T + 1, B)),
        "action": ("int64", (T, B)),
        "reward": ("float32", (T, B)),
        "terminated": ("bool", (T, B)),
        "truncated": ("bool", (T, B)),
        "ended": ("bool", (T, B)),
        "valid": ("bool", (T, B)),
        "info": ("uint8", (T, B, spec.info_bytes)),
    }
    return {prefix + name: v for name, v in fields.items()}


@dataclass(slots=True)
class RolloutArrays:
    """The cells of a rollout as numpy arrays, into which the worker processes write."""

    frames: np.ndarray
    final_frames: np.ndarray
    age: np.ndarray
    action: np.ndarray
    reward: np.ndarray
    terminated: np.ndarray
    truncated: np.ndarray
    ended: np.ndarray
    valid: np.ndarray
    info: np.ndarray
    """[T, B, info_bytes] see `Step`."""
    stack: int

    @classmethod
    def of(cls, arrays: dict[str, np.ndarray], stack: int, prefix: str = "") -> "RolloutArrays":
        names = [n for n in cls.__slots__ if n != "stack"]
        return cls(**{n: arrays[prefix + n] for n in names}, stack=stack)

    @classmethod
    def zeros(cls, spec: EnvSpec, T: int, B: int) -> "RolloutArrays":
        """Allocate the arrays in private memory."""
        return cls.of(private_arrays(rollout_layout(spec, T, B)), spec.stack)

    def fill_sentinels(self) -> None:
        self.action.fill(SENTINEL_ACTION)
        self.reward.fill(SENTINEL_REWARD)

    def step(self, t: int, b: slice) -> Step:
        """The cells that step t of some environments writes: the observation at t + 1, the rest at t."""
        return Step(
            frame=self.frames[self.stack + t, b],
            age=self.age[t + 1, b],
            final_frame=self.final_frames[t, b],
            reward=self.reward[t, b],
            terminated=self.terminated[t, b],
            truncated=self.truncated[t, b],
            ended=self.ended[t, b],
            valid=self.valid[t, b],
            info=self.info[t, b],
        )

    def initial(self, b: slice, spec: EnvSpec) -> Step:
        """The cells of the observation at t = 0 (frame and age; the rest is scratch)."""
        step = Step.empty(b.stop - b.start, spec)
        step.frame, step.age = self.frames[self.stack - 1, b], self.age[0, b]
        return step
