"""The options that `VectorEnv` and `DeviceVectorEnv` share: names, defaults and checks."""

import functools
import inspect
import os
from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar, Concatenate, ParamSpec, TypeVar

import numpy as np
from gymnasium.vector import AutoresetMode

from accel_rl.emulator.games import action_codes, check_game, check_switches, games, vector_games
from accel_rl.text.errors import ConfigError, nearest

SIDE = 84  # Height and width of resized observations
WIDTH = 160
RAM_BYTES = 128
NO_LIMIT = 2**31 - 1
# The autoreset modes, in the order of AutoReset (stacked_env.h)
MODES = (AutoresetMode.NEXT_STEP, AutoresetMode.SAME_STEP, AutoresetMode.DISABLED)
CHOICES: dict[str, tuple[str | None, ...]] = {
    "autoreset_mode": tuple(mode.value for mode in MODES),
    "obs_type": (None, "rgb", "grayscale", "ram"),
    "render_mode": (None, "rgb_array"),
}
ELSEWHERE = {
    "device": "use accel_rl.emulator.DeviceVectorEnv",
    "max_episode_steps": "use max_num_frames_per_episode, in frames (frameskip a step)",
}

Env = TypeVar("Env")
Options = TypeVar("Options")
P = ParamSpec("P")


@dataclass(frozen=True)
class VectorOptions:
    """Options have the names and defaults of ale-py's AtariVectorEnv, or of ale-py's AtariEnv if AtariVectorEnv lacks
    the option. Raises ConfigError for invalid values, and for values that only ale-py supports."""

    game: str
    """One game, or several separated by commas. With several games, environment i plays game number i modulo the number
    of games, all games have 18 actions, and `info["game"]` is the index of each environment's game."""
    num_envs: int
    _: KW_ONLY
    batch_size: int = 0
    """recv() returns the first `batch_size` environments that finish a step; 0 means all environments."""
    num_threads: int = 0
    """0 means one thread per core that the process's affinity mask and the cgroup's quota allow, but at most one thread
    per environment."""
    thread_affinity_offset: int = -1
    """On Linux, thread i is pinned to the usable core number offset + i; -1 means no pinning."""
    max_num_frames_per_episode: int = 108000
    """The time limit in emulated frames."""
    repeat_action_probability: float = 0.0
    full_action_space: bool = False
    """Use all 18 actions instead of the minimal set of the game."""
    continuous: bool = False
    """Actions are three numbers: radius and angle of a joystick, and the fire button (polar_joystick.py)."""
    continuous_action_threshold: float = 0.5
    """The joystick counts as moved, and the button as pressed, if the value exceeds this threshold."""
    autoreset_mode: AutoresetMode | str = AutoresetMode.NEXT_STEP
    img_height: int = SIDE
    img_width: int = SIDE
    grayscale: bool = True
    stack_num: int = 4
    frameskip: int = 4
    maxpool: bool = True
    noop_max: int = 30
    """Upper limit of the random number of no-ops after a reset."""
    episodic_life: bool = False
    """A lost life terminates the episode and resets the game."""
    life_loss_info: bool = False
    """A lost life sets `terminated`, but the game continues without a reset."""
    reward_clipping: bool = True
    use_fire_reset: bool = True
    mode: int | None = None
    """The game mode and the difficulty; None means the game's default."""
    difficulty: int | None = None
    obs_type: str | None = None
    """If set, the raw uint8 observations of ale-py's AtariEnv, not stacked: "rgb" [210, 160, 3] or "grayscale" [210,
    160] is the last screen of a step, and "ram" [128] is the console's RAM."""
    render_mode: str | None = None
    """With "rgb_array", render() returns the screens."""
    rom: str | os.PathLike[str] | None = None
    """The path of a ROM file to use instead of ale-py's, such as a variant of the game."""
    translate: bool = True
    """Translate the game's ROM to C++ and compile it in the background (translation.py). The game then runs faster,
    with the same results."""
    copy: bool = True
    """If true, each result has memory of its own. If false, observations are written to two buffers in turn: a result
    of recv() is overwritten by the send() after the next recv() or, if a batch does not contain all environments, by
    the second recv() after it. With either value, `torch.from_numpy(obs)` makes no copy."""

    FIXED: ClassVar[Sequence[str]] = ("img_height", "img_width", "grayscale")
    """Options of which only the default value is supported."""
    OTHERS: ClassVar[str] = "; for others use ale_py.vector_env.AtariVectorEnv"
    """Part of an error message: where other values of these options are supported."""
    LIMITS: ClassVar[dict[str, tuple[int, int]]] = {
        "num_envs": (1, 2**16),
        "num_threads": (0, 2**10),
        "thread_affinity_offset": (-1, 2**16),
        "max_num_frames_per_episode": (1, NO_LIMIT),
        "stack_num": (1, 2**10),
        "frameskip": (1, 2**10),
        "noop_max": (0, NO_LIMIT),
    }

    def __post_init__(self) -> None:
        for game in self.games:
            check_game(game, self.supported_games())
            check_switches(game, self.mode, self.difficulty)
        for name in self.FIXED:
            value, only = _text(getattr(self, name)), _text(getattr(type(self), name))
            if value != only:
                others = "; use obs_type='rgb'" if name == "grayscale" else self.OTHERS
                raise ConfigError(f"{name}={value!r}: must be {only!r}{others}")
        for name, choices in CHOICES.items():
            value, names = _text(getattr(self, name)), [str(choice) for choice in choices]
            if value not in choices:
                raise ConfigError(f"{name}={value!r}: must be one of {', '.join(names)}{nearest(str(value), names)}")
        for name, (least, most) in (self.LIMITS | {"batch_size": (0, self.num_envs)}).items():
            number = getattr(self, name)
            if isinstance(number, bool) or not isinstance(number, int | np.integer) or not least <= number <= most:
                raise ConfigError(f"{name}={number!r}: must be a whole number from {least} to {most}")
        for name in ("repeat_action_probability", "continuous_action_threshold"):
            if not 0 <= getattr(self, name) <= 1:
                raise ConfigError(f"{name}={getattr(self, name)}: must be from 0 to 1")
        if self.obs_type and self.stack_num != 4:
            raise ConfigError(
                f"stack_num={self.stack_num}: with obs_type, use gymnasium.wrappers.FrameStackObservation instead"
            )
        if self.thread_affinity_offset >= 0 and not hasattr(os, "sched_setaffinity"):
            raise ConfigError(f"thread_affinity_offset={self.thread_affinity_offset}: this system cannot pin threads")
        self._check_games()

    def supported_games(self) -> Sequence[str]:
        return vector_games()

    @property
    def games(self) -> list[str]:
        """The names of the games. Environment i plays games[i % len(games)]."""
        return [game.strip() for game in self.game.split(",")]

    def action_codes(self) -> list[int]:
        """Return the codes of the joystick actions, which are equal for all games."""
        return action_codes(self.games[0], self.full_action_space or self.continuous or len(self.games) > 1)

    def _check_games(self) -> None:
        first, *others = self.games
        if others and self.rom is not None:
            raise ConfigError(f"rom={str(self.rom)!r}: needs a single game, not {self.game}")
        if len(set(self.games)) <= len(others):
            raise ConfigError(f"game={self.game!r} names a game twice")
        if self.num_envs <= len(others):
            raise ConfigError(f"num_envs={self.num_envs}: must be at least {len(self.games)}, one for each game")
        for game in others:
            if action_codes(game, True) != self.action_codes():
                raise ConfigError(f"game={self.game!r}: {game} has other actions than {first}")

    @property
    def observation_shape(self) -> tuple[int, ...]:
        height = games()[self.games[0]]["height"]
        raw = {"rgb": (height, WIDTH, 3), "grayscale": (height, WIDTH), "ram": (RAM_BYTES,)}
        return raw[self.obs_type] if self.obs_type else (self.stack_num, self.img_height, self.img_width)


def keywords_of(
    options: Callable[P, Options],
) -> Callable[[Callable[[Env, Options], None]], Callable[Concatenate[Env, P], None]]:
    """Decorate an `__init__` whose only parameter is an instance of the dataclass `options`. Callers pass the arguments
    of the dataclass, which type checkers, editors and help() show. Unknown names raise ConfigError."""
    names = inspect.signature(options).parameters

    def decorate(init: Callable[[Env, Options], None]) -> Callable[Concatenate[Env, P], None]:
        @functools.wraps(vars(options)["__init__"])
        def checked(self: Env, /, *args: P.args, **given: P.kwargs) -> None:
            for name in given:
                if name not in names:
                    unknown = f"{type(self).__name__} has no such option; ale-py's environments may have it"
                    raise ConfigError(f"{name}: {ELSEWHERE.get(name, unknown + nearest(name, names))}")
            init(self, options(*args, **given))

        return checked

    return decorate


def _text(value: Any) -> Any:
    """Return the value of an AutoresetMode as text, and other values unchanged."""
    return value.value if isinstance(value, AutoresetMode) else value
