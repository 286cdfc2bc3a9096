"""The fields of a rollout are numpy arrays [T, B, ...], into which the worker processes write. This module does not
import torch."""

from dataclasses import dataclass, field, fields
from typing import Any

import numpy as np

from accel_rl.data.shared_memory import Layout, private_arrays
from accel_rl.data.spec import EnvSpec


@dataclass(slots=True)
class Step:
    """One step of n environments, in arrays [n, ...] that the environments overwrite in place. The arrays of a step are
    usually slices of a rollout's shared memory: `frame` and `age` at t + 1, the other arrays at t.

    `frame` [n, *frame_shape] is the newest frame after the step. If the step ended an episode and the reset is
    `immediate`, `frame` is the new episode's first frame. `final_frame` [n, *frame_shape] is the old episode's last
    frame, written only where `ended` is true. `age` [n] uint8 is the number of steps since the episode's first frame,
    saturating at `EnvSpec.oldest`. `reward` [n] float32 is not clipped. `terminated` [n] bool is true if the return
    ends, because the game is over, or because a life was lost and the protocol counts lives. `truncated` [n] bool is
    true if the time limit stopped the episode; the return then bootstraps from the final frame. `ended` [n] bool is
    true if the episode has ended, by game over or time limit, so that the environment must be reset. `valid` [n] bool
    is false if the environment was not stepped, because it waited for its reset. `info` [n, info_bytes] uint8 contains
    the bytes of numbers about the episode (envs/episode_info.py), written only where `ended` is true; Atari games
    report no numbers.
    """

    frame: np.ndarray
    final_frame: np.ndarray
    age: np.ndarray
    reward: np.ndarray
    terminated: np.ndarray
    truncated: np.ndarray
    ended: np.ndarray
    valid: np.ndarray
    info: np.ndarray = field(default_factory=lambda: np.zeros((0, 0), np.uint8))

    @classmethod
    def empty(cls, n: int, spec: EnvSpec) -> "Step":
        """Arrays for n environments in private memory, for tests, videos and benchmarks."""
        frame = np.zeros((n, *spec.frame_shape), spec.frame_dtype)
        flags = {k: np.zeros(n, bool) for k in ("terminated", "truncated", "ended", "valid")}
        return cls(
            frame=frame, final_frame=frame.copy(), age=np.zeros(n, np.uint8), reward=np.zeros(n, np.float32),
            info=np.zeros((n, spec.info_bytes), np.uint8), **flags,
        )  # fmt: skip

    def clear(self) -> None:
        """Set all arrays except the frames to their values at the start of an episode."""
        self.age[:] = 0
        self.reward[:] = 0
        self.terminated[:] = self.truncated[:] = self.ended[:] = False
        self.valid[:] = True

    def __getitem__(self, index: slice) -> "Step":
        """Views of this step's arrays for some of the environments."""
        return Step(**{f.name: getattr(self, f.name)[index] for f in fields(self)})


TENSORS = ("frames", "final_frames", "age", "action", "reward", "terminated", "truncated", "ended", "valid")
"""`TENSORS` lists the arrays that a `Rollout` has as tensors."""
# Actions and rewards that were never written have a sentinel value, which tests detect.
# An environment whose action is the sentinel (-1, or NaN if actions are real) is not stepped.
SENTINEL_ACTION = -1
SENTINEL_REWARD = float("nan")


def sentinel(action: Any) -> float:
    """The sentinel of an array or a tensor of actions."""
    return SENTINEL_REWARD if "float" in str(action.dtype) else SENTINEL_ACTION


def is_skipped(action: np.ndarray) -> np.ndarray:
    """Whether each of the actions [n, ...] is the sentinel, bool [n]."""
    first = action.reshape(len(action), -1)[:, 0]
    return np.isnan(first) if action.dtype.kind == "f" else first < 0


def rollout_layout(spec: EnvSpec, T: int, B: int, prefix: str = "") -> Layout:
    """The name, dtype and shape of each array of a rollout. The array `frames` begins with the stack - 1 frames before
    the first step."""
    fields: Layout = {
        "frames": (spec.frame_dtype, (spec.stack - 1 + T + 1, B, *spec.frame_shape)),
        "final_frames": (spec.frame_dtype, (T, B, *spec.frame_shape)),
        "age": ("uint8", (T + 1, B)),
        "action": (spec.action_dtype, (T, B, *spec.action_shape)),
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
    """[T, B, info_bytes], numbers about ended episodes, as in `Step`."""
    stack: int

    @classmethod
    def of(cls, arrays: dict[str, np.ndarray], stack: int, prefix: str = "") -> "RolloutArrays":
        names = [n for n in cls.__slots__ if n != "stack"]
        return cls(**{n: arrays[prefix + n] for n in names}, stack=stack)

    @classmethod
    def zeros(cls, spec: EnvSpec, T: int, B: int) -> "RolloutArrays":
        """Arrays of zeros in private memory."""
        return cls.of(private_arrays(rollout_layout(spec, T, B)), spec.stack)

    def fill_sentinels(self) -> None:
        self.action.fill(sentinel(self.action))
        self.reward.fill(SENTINEL_REWARD)

    def step(self, t: int, b: slice) -> Step:
        """Views into which step t of environments `b` is written. The observation is written at t + 1, and the other
        arrays at t."""
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
        """Views for the rollout's first observation, in which only `frame` and `age` are meaningful."""
        step = Step.empty(b.stop - b.start, spec)
        step.frame, step.age = self.frames[self.stack - 1, b], self.age[0, b]
        return step
