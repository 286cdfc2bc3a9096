"""A saved state of an Atari environment contains the origin of its episode, so that another backend can restore the
state by replaying the episode.

    state      header | the backend's own bytes | RAM [128] | actions, one byte a step

A reset of the console draws the timer's initial value from a random stream with a fixed seed, leaves the RAM unchanged,
and initialises all other state. An Atari episode is therefore determined by the number of the console's resets, the RAM
before the episode's reset, the environment's seed, the episode's number (for no-ops and sticky actions) and its
actions.
"""

import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from accel_rl.data.spec import EnvSpec
from accel_rl.envs.environment import pack_state, unpack_state
from accel_rl.text.errors import RunError

RAM = 128  # The Atari 2600 has 128 bytes of RAM.
KINDS = {"emulator": "emulator", "ale": "atari"}  # Each backend writes its name into its saved states.
STRIDE = 16  # The console's state is cached after 16, 32, 48 .. resets.


@dataclass(slots=True)
class Origin:
    """An `Origin` describes how an Atari episode started, so that the start can be repeated.

    `resets` is the number of the console's resets since the game was loaded, or None if the number is unknown. `before`
    is the number of resets before the episode's reset, or None before the first episode. `ram` [128] is the RAM before
    the episode's reset.
    """

    resets: int | None = 0
    before: int | None = None
    ram: bytes = b""

    def begin(self, ram: bytes) -> None:
        self.before, self.ram = self.resets, ram

    def forget(self) -> None:
        """Mark the origin of the episode as unknown, because the console's state was not reached by resets."""
        self.resets = self.before = None

    def count(self) -> None:
        """Count a reset of the console."""
        if self.resets is not None:
            self.resets += 1


class Replayable(Protocol):
    """A `Replayable` is an environment of one Atari game whose episodes can be replayed."""

    game: str
    spec: EnvSpec
    origin: Origin
    seed: int
    episode: int

    @property
    def codes(self) -> Sequence[int] | np.ndarray:
        """Return, for each action of the environment, its code among ale-py's 18 joystick actions."""

    def load(self) -> None:
        """Load the game again, which restores the console and `origin` to their initial state."""

    def reset_console(self) -> None: ...

    def save_console(self) -> Any: ...

    def restore_console(self, console: Any) -> None: ...

    def play_frame(self, code: int) -> None:
        """Emulate one frame with one of the 18 joystick actions."""

    def ram(self) -> bytes: ...

    def set_ram(self, ram: bytes) -> None: ...

    def reset(self, frame: np.ndarray, episode: int | None = None) -> None: ...

    def step(self, action: int, frame: np.ndarray) -> tuple[float, bool, bool, bool]: ...


def pack_origin(header: dict[str, Any], env_state: bytes, env: Replayable, codes: bytes) -> bytes:
    """Return the bytes of a saved state, including the episode's origin. `env_state` is the backend's own state, and
    `codes` are the joystick actions of the episode so far."""
    origin = env.origin
    if origin.resets is None:
        return pack_state(header, env_state)
    header["origin"] = {
        "own": len(env_state),
        "resets": origin.resets,
        "before": origin.before,
        "ram": zlib.crc32(env.ram()),
    }
    return pack_state(header, env_state + origin.ram.ljust(RAM, b"\0") + codes)


def unpack_origin(state: bytes, env: Replayable, **expected: Any) -> tuple[dict[str, Any], bytes, bytes]:
    """Unpack a state that the environment's own backend saved. Return (header, the backend's bytes, action codes), and
    set the environment's origin to that of the state."""
    header, blob = unpack_state(state, **expected)
    result = header.get("origin")
    if result is None:
        env.origin = Origin(None)
        return header, blob, b""
    env_state, ram, codes = _parts(result, blob)
    env.origin = Origin(result["resets"], result["before"], ram)
    return header, env_state, codes


def replay(env: Replayable, state: bytes) -> None:
    """Restore a state that the other Atari backend saved, by replaying the actions of its episode in `env`. Raises
    ValueError if the state contains no origin, and RunError if the replay leads to another RAM than the saved one."""
    header, blob = unpack_state(state, game=env.game)
    result = header.get("origin")
    if result is None:
        raise ValueError("the state does not say what its episode follows from: it is of an earlier version")
    _, ram, codes = _parts(result, blob)
    env.seed, env.episode = header["seed"], header["episode"]
    if env.origin != Origin():
        env.load()
    _walk(env, result["before"] or 0)
    if result["before"] is not None:
        env.set_ram(ram)
        frame, index = np.zeros(env.spec.frame_shape, np.uint8), {int(code): i for i, code in enumerate(env.codes)}
        env.reset(frame, header["episode"] - 1)
        for code in codes:
            env.step(index[code], frame)
    env.origin.resets = result["resets"]
    if zlib.crc32(env.ram()) != result["ram"]:
        backend = env.spec.protocol["backend"]
        raise RunError(f"{env.game}'s episode {header['episode'] - 1} leads elsewhere when {backend} plays it again")


# Maps (backend, game, mode, difficulty) to the states of the console after 0, 16, 32 .. resets.
_walked: dict[tuple[Any, ...], list[Any]] = {}


def _walk(env: Replayable, resets: int) -> None:
    """Bring the environment's console to its state after `resets` resets, starting from the nearest cached state."""
    rules = env.spec.protocol
    kept = _walked.setdefault((rules["backend"], env.game, rules["mode"], rules["difficulty"]), [env.save_console()])
    while len(kept) <= resets // STRIDE:
        env.restore_console(kept[-1])
        for _ in range(STRIDE):
            env.reset_console()
        kept.append(env.save_console())
    env.restore_console(kept[resets // STRIDE])
    for _ in range(resets % STRIDE):
        env.reset_console()
    env.origin.resets = resets


def has_origin(state: bytes) -> bool:
    """Return whether the other backend can restore a saved state, of an environment or a batch of environments."""
    header, blob = unpack_state(state)
    if header["kind"] == "batch":
        return has_origin(blob)
    if header["kind"] == "reserved":
        return has_origin(blob[: header["sizes"][0]])
    return "origin" in header


def is_foreign(state: bytes, backend: str) -> bool:
    """Return whether another Atari backend than `backend` saved a state."""
    return unpack_state(state)[0].get("kind") in {kind for name, kind in KINDS.items() if name != backend}


def _parts(header: dict[str, Any], blob: bytes) -> tuple[bytes, bytes, bytes]:
    size = header["own"]
    return blob[:size], blob[size : size + RAM], blob[size + RAM :]
