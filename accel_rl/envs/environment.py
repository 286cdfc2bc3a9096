"""The interface of all environments."""

from typing import Protocol

import numpy as np

from accel_rl.data.rollout_arrays import Step
from accel_rl.data.spec import EnvSpec


def episode_rng(seed: int, episode: int) -> np.random.Generator:
    """Return the random generator of one episode."""
    return np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(episode,)))


class Env(Protocol):
    """A single environment. `SequentialEnv` combines several environments into a batch.

    All random numbers of an episode follow from the environment's seed and the episode's number (`episode_rng`). The
    random numbers depend neither on earlier episodes nor on the instance that plays the episode.
    """

    spec: EnvSpec

    def reset(self, frame: np.ndarray, episode: int | None = None) -> None:
        """Start the episode with this number. The default is the number after the last episode's. The first episode is
        number 0.

        The episode's first frame is written into `frame` [*frame_shape].
        """

    def step(self, action: int, frame: np.ndarray) -> tuple[float, bool, bool, bool]:
        """Play one agent step and write the newest frame into `frame`.

        Return (raw reward, terminated, truncated, ended). The environment never resets by itself.
        """

    def get_state(self) -> bytes:
        """Return the complete state as bytes, without pickle."""

    def set_state(self, state: bytes) -> None:
        """Restore a state. Raises ValueError if the state belongs to another kind of environment."""

    def close(self) -> None: ...


class BatchEnv(Protocol):
    """A batch of n environments that are stepped together. A step consists of send and recv, so that other computations
    can run in between."""

    spec: EnvSpec
    n: int

    def reset(self, out: Step) -> None:
        """Start an episode in each environment. Frame and age are written, and the other fields are cleared."""

    def send(self, action: np.ndarray) -> None:
        """Send actions [n] (any integer dtype)."""

    def recv(self, out: Step) -> None:
        """Write the results of the step. Ended environments are reset by the batch's mode."""

    def reset_waiting(self, out: Step) -> None:
        """In the optimisation pause, reset environments. In mode `wait` these are the waiting environments, and only
        frame and age are written. In mode `swap` they are the used reserves, and nothing is written."""

    @property
    def late_resets(self) -> int:
        """Number of episodes that began with an immediate reset because no reserve was ready (mode `swap`)."""

    def get_state(self) -> list[bytes]: ...

    def set_state(self, states: list[bytes]) -> None: ...

    def close(self) -> None: ...
