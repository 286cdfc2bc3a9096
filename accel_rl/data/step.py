"""The arrays that n environments write in one step."""

from dataclasses import dataclass, field, fields

import numpy as np

from accel_rl.data.spec import EnvSpec


@dataclass(slots=True)
class Step:
    """One step of n environments: arrays [n, ...] that an environment writes in place, never replaces.

    Usually a slice of a rollout's shared memory: `frame` and `age` at t + 1, the rest at t.
    """

    frame: np.ndarray  # [n, *frame_shape] the observation's newest frame after the step; after an `immediate`
    #                    reset the new episode's first frame
    final_frame: np.ndarray  # [n, *frame_shape] written only where `ended`: the old episode's last frame
    age: np.ndarray  # [n] uint8 steps since the episode's first frame, saturating at `EnvSpec.oldest`
    reward: np.ndarray  # [n] float32 raw
    terminated: np.ndarray  # [n] bool the return ends here (game over; a lost life where the protocol says so)
    truncated: np.ndarray  # [n] bool stopped by the time limit: the return bootstraps from the final frame
    ended: np.ndarray  # [n] bool the episode is over (game over or time limit), a reset is due
    valid: np.ndarray  # [n] bool False where the environment waited for its reset and did not step
    # [n, info_bytes] uint8 written only where `ended`: numbers of the episode (envs/episode_info.py); Atari has none
    info: np.ndarray = field(default_factory=lambda: np.zeros((0, 0), np.uint8))

    @classmethod
    def empty(cls, n: int, spec: EnvSpec) -> "Step":
        """Allocate private arrays for n environments (tests, videos, benchmarks)."""
        frame = np.zeros((n, *spec.frame_shape), spec.frame_dtype)
        flags = {k: np.zeros(n, bool) for k in ("terminated", "truncated", "ended", "valid")}
        return cls(
            frame=frame, final_frame=frame.copy(), age=np.zeros(n, np.uint8), reward=np.zeros(n, np.float32),
            info=np.zeros((n, spec.info_bytes), np.uint8), **flags,
        )  # fmt: skip

    def __getitem__(self, index: slice) -> "Step":
        """A view of some of the environments."""
        return Step(**{f.name: getattr(self, f.name)[index] for f in fields(self)})
