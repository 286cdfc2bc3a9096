"""The interface of all environments, and the format of their saved states."""

import json
import zlib
from typing import Any, Protocol

import numpy as np

from accel_rl.data.rollout_arrays import Step
from accel_rl.data.spec import EnvSpec


def episode_rng(seed: int, episode: int) -> np.random.Generator:
    """Return the random number generator of an episode, which depends only on `seed` and `episode`."""
    return np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(episode,)))


class EnvError(Exception):
    """The code of the environment `env` raised an exception. The message is one line, and names the step."""

    def __init__(self, env: "Env | BatchEnv", message: str):
        super().__init__(message)
        self.env = env


class Env(Protocol):
    """A single environment. `SequentialEnv` combines several environments into a batch.

    The random numbers of an episode depend only on the environment's seed and the episode's number (`episode_rng`), and
    not on earlier episodes.
    """

    spec: EnvSpec

    def reset(self, frame: np.ndarray, episode: int | None = None) -> None:
        """Begin an episode, and write its first frame into `frame` [*frame_shape]. `episode` is the episode's number,
        counted from 0, or None for the next episode."""

    def step(self, action: Any, frame: np.ndarray) -> tuple[float, bool, bool, bool]:
        """Play one agent step. `action` is a number or a list of numbers. Write the newest frame into `frame`, and
        return (unclipped reward, terminated, truncated, ended). The environment does not reset itself."""

    def get_state(self) -> bytes:
        """Return the environment's complete state, without pickle."""

    def set_state(self, state: bytes) -> None:
        """Restore a saved state. Raises ValueError if the state is of another kind of environment."""

    def close(self) -> None: ...


class BatchEnv(Protocol):
    """n environments that are stepped together. A step consists of the calls `send` and `recv`; the caller may compute
    between these calls."""

    spec: EnvSpec
    n: int

    def reset(self, out: Step) -> None:
        """Begin an episode in each environment, write the first frames and ages into `out`, and set the other fields of
        `out` to zero."""

    def send(self, action: np.ndarray) -> None:
        """Begin a step with actions [n, *action_shape]: integers of any dtype, or float32."""

    def recv(self, out: Step) -> None:
        """Wait for the step's results, and write them into `out`. Environments whose episode has ended are reset
        according to --sampler.reset."""

    def reset_waiting(self, out: Step) -> None:
        """Do the resets that can wait until the learner optimises. With --sampler.reset wait, reset the environments
        whose episode has ended, and write the new episodes' first frames and ages into `out`. With --sampler.reset
        swap, reset the reserve environments."""

    @property
    def late_resets(self) -> int:
        """With --sampler.reset swap: the number of episodes that began with an immediate reset, because the reserve
        environment had not been reset yet."""

    def get_state(self) -> list[bytes]: ...

    def set_state(self, states: list[bytes]) -> None: ...

    def close(self) -> None: ...


_MAGIC = b"accel_rl.env.1\n"  # The last digit is the version of the format.
_LENGTH = 4  # sizes of the header's length and of the checksum, in bytes (little-endian)


def pack_state(header: dict[str, Any], blob: bytes = b"") -> bytes:
    """Return the bytes of a saved state, without pickle: magic | header length | header (JSON) | blob | CRC-32 of all
    previous bytes."""
    text = json.dumps(header).encode()
    body = _MAGIC + len(text).to_bytes(_LENGTH, "little") + text + blob
    return body + zlib.crc32(body).to_bytes(_LENGTH, "little")


def unpack_state(state: bytes, **expected: Any) -> tuple[dict[str, Any], bytes]:
    """Return the (header, blob) of a saved state. Raises ValueError if the bytes are corrupt or no saved state, or if
    values in the header differ from `expected`."""
    state = bytes(state)
    start = len(_MAGIC) + _LENGTH
    if not state.startswith(_MAGIC) or len(state) < start + _LENGTH:
        raise ValueError("not the state of an environment (wrong magic)")
    body, checksum = state[:-_LENGTH], int.from_bytes(state[-_LENGTH:], "little")
    if zlib.crc32(body) != checksum:
        raise ValueError("the state of an environment is corrupt (wrong checksum)")
    end = start + int.from_bytes(body[len(_MAGIC) : start], "little")
    header = json.loads(body[start:end])
    for key, value in expected.items():
        if header.get(key) != value:
            raise ValueError(f"the state is of {key}={header.get(key)!r}, this environment has {value!r}")
    return header, body[end:]
