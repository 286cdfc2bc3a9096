"""Begin episodes at saved start points, by replaying recorded actions."""

import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from accel_rl.data.spec import EnvSpec
from accel_rl.envs.atari_games import INEXACT_RESTORE
from accel_rl.envs.start_points import StartPoints, load_starts
from accel_rl.text.errors import RunError


class Playable(Protocol):
    """An environment of one Atari game whose console can be played frame by frame."""

    game: str
    spec: EnvSpec

    def load(self) -> None:
        """Load the game again, which restores the console to its initial state."""

    def reset_console(self) -> None: ...

    def save_console(self) -> Any: ...

    def restore_console(self, console: Any) -> None: ...

    def play_frame(self, code: int) -> None:
        """Emulate one frame with one of the 18 joystick actions."""

    def ram(self) -> bytes: ...


@dataclass(frozen=True, slots=True)
class StartOrder:
    """The order in which the environments of a batch use the start points of a file.

    `first` is the index of the batch's first environment among the `environments` environments of an evaluation.
    Environment b of B uses the start points b, b + B, b + 2 B ..., so that each point is used once.
    """

    file: str
    first: int
    environments: int

    def of(self, n: int) -> list["SavedStarts"]:
        """Return the `SavedStarts` of each of the batch's n environments. Raises ConfigError."""
        points = load_starts(Path(self.file))
        return [SavedStarts(points, self.first + i, self.environments) for i in range(n)]


@dataclass(frozen=True, slots=True)
class SavedStarts:
    """The start points at which the episodes of environment b of B begin."""

    points: StartPoints
    b: int
    B: int

    def place(self, env: Playable, episode: int) -> tuple[int, int]:
        """Set the console of `env` to the start point of an episode, and draw the screen. Return (number of emulated
        frames before the start point, last action). Raises RunError if the console's RAM differs from the recorded
        RAM."""
        points = self.points
        i = (self.b + episode * self.B) % len(points)
        point = points.points[i]
        codes = points.games[point.game]
        if env.spec.protocol["backend"] == "ale" and env.game in INEXACT_RESTORE:
            _power_on(env)
            for code in codes[: point.steps]:
                _play(env, code, points)
        else:
            env.restore_console(_before(env, points, point.game)[i])
            _play(env, codes[point.steps - 1], points)
        if zlib.crc32(env.ram()) != point.ram:
            backend = env.spec.protocol["backend"]
            raise RunError(f"start point {i} of {env.game} leads elsewhere when {backend} plays it")
        return points.frames(i), codes[point.steps - 1]


_consoles: dict[tuple[str, str, int], dict[int, Any]] = {}  # {(backend, checksum, game): {start point: console state}}


def _before(env: Playable, points: StartPoints, game: int) -> dict[int, Any]:
    """For each start point in a recorded game, return the console's state one recorded step before the start point.
    `place` emulates this last step, because ale-py draws no screen when a state is restored. Each recorded game is
    replayed only once per process."""
    key = (env.spec.protocol["backend"], points.checksum, game)
    if key not in _consoles:
        wanted = {p.steps - 1: i for i, p in enumerate(points.points) if p.game == game}
        _power_on(env)
        result = {}
        for step, code in enumerate(points.games[game][: max(wanted) + 1]):
            if step in wanted:
                result[wanted[step]] = env.save_console()
            _play(env, code, points)
        _consoles[key] = result
    return _consoles[key]


def _power_on(env: Playable) -> None:
    env.load()
    env.reset_console()


def _play(env: Playable, code: int, points: StartPoints) -> None:
    for _ in range(points.frame_skip):
        env.play_frame(code)
