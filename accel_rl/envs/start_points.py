"""Start points: moments within recorded games, at which evaluation episodes can begin.

Nair et al. 2015, section 5.2, begin episodes at 100 points sampled from games of a professional human player, which are
not public. In this project, a file of start points contains the actions of a few recorded games, and the moments at
which episodes begin. Either Atari backend reaches a start point by replaying a recorded game's actions.
"""

import base64
import hashlib
import json
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from accel_rl.envs.protocols import Protocol
from accel_rl.text.errors import ConfigError

FORMAT = "accel_rl starts 1"
NOTE = "our start points, not the paper's: those are not public"


@dataclass(frozen=True, slots=True)
class StartPoint:
    """The moment after `steps` steps of a recorded game. `ram` is the CRC-32 of the console's RAM at that moment."""

    game: int
    steps: int
    ram: int


@dataclass(frozen=True)
class StartPoints:
    """The start points of one Atari game, and the recorded games.

    `policy` describes the policy that played the recorded games. `frame_skip` is the number of emulated frames per
    recorded action. `mode` and `difficulty` are the positions of the game's switches, or None for the default position.
    `games` contains the actions of each recorded game, one byte per step, as codes of ale-py's 18 joystick actions.
    """

    game: str
    policy: str
    seed: int
    frame_skip: int
    mode: int | None
    difficulty: int | None
    games: tuple[bytes, ...]
    points: tuple[StartPoint, ...]

    def __len__(self) -> int:
        return len(self.points)

    def frames(self, i: int) -> int:
        """Return the number of emulated frames before start point i in its recorded game."""
        return self.points[i].steps * self.frame_skip

    def check(self, game: str, rules: Protocol, max_steps: int) -> None:
        """Raise ConfigError if episodes of `game` cannot begin at these start points. `max_steps` is the time limit of
        an episode in agent steps."""
        for name, got, wanted in (
            ("game", self.game, game),
            ("mode", self.mode, rules.mode),
            ("difficulty", self.difficulty, rules.difficulty),
        ):
            if got != wanted:
                raise ConfigError(f"the start points have {name}={got}, the environment has {name}={wanted}")
        latest, most = max(map(self.frames, range(len(self)))), max_steps * rules.frame_skip
        if latest >= most:
            raise ConfigError(
                f"a start point is at frame {latest:,}, the time limit of an episode at frame {most:,}; the frames "
                "before a start count"
            )

    def label(self) -> dict[str, Any]:
        """Return the description of the start points that is stored with each score."""
        result = {"starts": "saved", "starts_policy": self.policy, "starts_sha256": self.checksum[:12]}
        return {**result, "starts_note": NOTE}

    def to_dict(self) -> dict[str, Any]:
        return {
            "format": FORMAT,
            "note": NOTE,
            "game": self.game,
            "policy": self.policy,
            "seed": self.seed,
            "frame_skip": self.frame_skip,
            "mode": self.mode,
            "difficulty": self.difficulty,
            "games": [base64.b64encode(codes).decode() for codes in self.games],
            "points": [[p.game, p.steps, p.ram] for p in self.points],
        }

    @cached_property
    def checksum(self) -> str:
        return _checksum(self.to_dict())

    def save(self, path: Path) -> None:
        path.write_text(json.dumps({**self.to_dict(), "sha256": self.checksum}, indent=1) + "\n")


def _checksum(contents: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(contents, sort_keys=True).encode()).hexdigest()


def load_starts(path: Path) -> StartPoints:
    """Raises ConfigError if the file is missing or damaged."""
    try:
        result = json.loads(path.read_text())
        if not isinstance(result, dict) or result.get("format") != FORMAT:
            got = result.get("format") if isinstance(result, dict) else type(result).__name__
            raise ConfigError(f"{path} holds no start points (format {got!r}; wanted {FORMAT!r})")
        if result.pop("sha256", None) != _checksum(result):
            raise ConfigError(f"{path} is damaged (its sha256 is not the recorded one)")
        names = ("game", "policy", "seed", "frame_skip", "mode", "difficulty")
        games = tuple(base64.b64decode(text) for text in result["games"])
        points = tuple(StartPoint(*point) for point in result["points"])
        return StartPoints(**{name: result[name] for name in names}, games=games, points=points)
    except ConfigError:
        raise
    except OSError as e:
        raise ConfigError(f"{path}: {e.strerror}; make start points: accel-rl starts GAME --out {path}") from e
    except (ValueError, KeyError, TypeError) as e:
        raise ConfigError(f"{path} holds no readable start points ({' '.join(str(e).split())})") from e


def draw_moments(lengths: list[int], n: int, seed: int) -> list[tuple[int, int]]:
    """Draw n pairs (game, number of steps before the moment) uniformly and without replacement from recorded games of
    the given lengths. The first and the last moment of a game are never drawn. Raises ConfigError if there are fewer
    than n moments."""
    moments = [(game, steps) for game, length in enumerate(lengths) for steps in range(1, length)]
    if n < 1 or n > len(moments):
        raise ConfigError(f"{n} start points: must be from 1 to {len(moments):,}, the steps of the recorded games")
    chosen = np.random.default_rng(seed).choice(len(moments), n, replace=False)
    return [moments[i] for i in chosen]
