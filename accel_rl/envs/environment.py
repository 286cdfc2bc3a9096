"""The interface of all environments."""

from typing import Protocol

import numpy as np

from accel_rl.data.rollout_arrays import Step
from accel_rl.data.spec import EnvSpec


def episode_rng(seed: int, episode: int) -> np.random.Generator:
    """The random generator of one episode."""
    return np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(episode,)))


class Env(Protocol):
    """One environment. `SequentialEnv` combines several into a batch.

    All random numbers of an episode follow from the environment's seed and the episode's number (`episode_rng`). They
    depend neither on earlier episodes nor on the instance that plays the episode.
    """

    spec: EnvSpec

    def reset(self, frame: np.ndarray, episode: int | None = None) -> None:
        """Start the episode with this number; by default, the number after the last episode's. The first episode is
        number 0.

        The episode's first frame is written into `frame` [*frame_shape].
        """

    def step(self, action: int, frame: np.ndarray) -> tuple[float, bool, bool, bool]:
        """Play one agent step and write the newest frame into `frame`.

        Returns (raw reward, terminated, truncated, ended). Never resets by itself.
        """

    def get_state(self) -> bytes:
        """The complete state as bytes, without pickle."""

    def set_state(self, state: bytes) -> None:
        """Restore a state. Raises ValueError if the state belongs to another kind of environment."""

    def close(self) -> None: ...


class BatchEnv(Protocol):
    """n environments stepped together. A step is send + recv, so that it can overlap with other work."""

    spec: EnvSpec
    n: int

    def reset(self, out: Step) -> None:
        """Start an episode in each environment. Writes frame and age, clears the rest."""

    def send(self, action: np.ndarray) -> None:
        """Send actions [n] (any integer dtype)."""

    def recv(self, out: Step) -> None:
        """Write the results of the step. Resets by the batch's mode."""

    def reset_waiting(self, out: Step) -> None:
        """In the optimisation pause, reset the waiting environments (mode `wait`; writes only frame and age) or
        the used reserves (mode `swap`; writes nothing)."""

    @property
    def late_resets(self) -> int:
        """Number of episodes that began with an immediate reset because no reserve was ready (mode `swap`)."""

    def get_state(self) -> list[bytes]: ...

    def set_state(self, states: list[bytes]) -> None: ...

    def close(self) -> None: ...
