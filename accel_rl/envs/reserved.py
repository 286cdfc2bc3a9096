"""A second instance of an environment, which is already reset, so that the next episode begins without waiting for a
reset."""

import numpy as np

from accel_rl.data.spec import EnvSpec
from accel_rl.envs.environment import Env, pack_state, unpack_state


class ReservedEnv:
    """Two instances of an environment with the same seed. While one instance plays, the other one, the reserve, has
    already been reset to the start of the next episode.

    `reset` switches to the reserve. `refill` later resets the instance that has finished its episode, while the learner
    optimises. If an episode ends before `refill` was called, `reset` resets the environment immediately and increments
    `late_resets`. The episodes are the same as without a reserve, except in games whose reset does not clear all state.
    """

    def __init__(self, playing: Env, reserve: Env) -> None:
        self.spec: EnvSpec = playing.spec
        self.late_resets = 0
        self._playing, self._reserve = playing, reserve
        # first frame of the reserve's episode
        self._first_frame = np.zeros(self.spec.frame_shape, self.spec.frame_dtype)
        self._ready = False
        self._episode = 0

    def reset(self, frame: np.ndarray, episode: int | None = None) -> None:
        if self._ready and episode in (None, self._episode):
            self._playing, self._reserve = self._reserve, self._playing
            np.copyto(frame, self._first_frame)
            self._ready = False
        else:
            self._episode = self._episode if episode is None else episode
            self._playing.reset(frame, self._episode)
            self._ready = False
            self.late_resets += 1
        self._episode += 1

    @property
    def instances(self) -> tuple[Env, Env]:
        return self._playing, self._reserve

    @property
    def playing(self) -> Env:
        return self._playing

    @property
    def episode_info(self) -> dict[str, float]:
        """The numbers that the environment reported at the end of the episode."""
        return self._playing.episode_info  # type: ignore[attr-defined]

    def refill(self) -> None:
        """Reset the reserve, unless it has already been reset."""
        if not self._ready:
            self._reserve.reset(self._first_frame, self._episode)
            self._ready = True

    def step(self, action: int, frame: np.ndarray) -> tuple[float, bool, bool, bool]:
        return self._playing.step(action, frame)

    def get_state(self) -> bytes:
        playing, reserve = self._playing.get_state(), self._reserve.get_state()
        header = {
            "kind": "reserved",
            "sizes": [len(playing), len(reserve)],
            "ready": self._ready,
            "episode": self._episode,
            "late_resets": self.late_resets,
        }
        return pack_state(header, playing + reserve + self._first_frame.tobytes())

    def set_state(self, state: bytes) -> None:
        header, blob = unpack_state(state, kind="reserved")
        first, second = header["sizes"]
        self._playing.set_state(blob[:first])
        self._reserve.set_state(blob[first : first + second])
        frame = np.frombuffer(blob[first + second :], self.spec.frame_dtype)
        self._first_frame[:] = frame.reshape(self.spec.frame_shape)
        # If the reserve's state could not be restored, the reserve counts as not ready, and is reset later.
        self._ready = header["ready"] and not getattr(self._reserve, "is_lost", False)
        self._episode = header["episode"]
        self.late_resets = header["late_resets"]

    def close(self) -> None:
        self._playing.close()
        self._reserve.close()
