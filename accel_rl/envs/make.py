"""Create environments from their settings."""

import json
from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import asdict, dataclass, fields, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Self

from accel_rl.data.spec import EnvSpec
from accel_rl.envs.atari_games import check_game, check_id, unclean_reset
from accel_rl.envs.environment import BatchEnv, Env
from accel_rl.envs.protocols import OVERRIDES, Protocol, resolve
from accel_rl.envs.reserved import ReservedEnv
from accel_rl.envs.sequential import SequentialEnv
from accel_rl.envs.several_games import check_games
from accel_rl.envs.starts import StartOrder
from accel_rl.processes.guard import children_killed
from accel_rl.text.errors import ConfigError, nearest
from accel_rl.text.notes import say_once

if TYPE_CHECKING:  # Importing Gymnasium takes a second.
    from accel_rl.envs.vectorized import VectorizedEnv

BACKENDS = ("auto", "ale", "emulator")
RANDOMNESS = ("auto", "sequence", "counter")
TRANSLATE = ("auto", "off")
RESTORE = ("replay", "new")
ACTION_MASKS = ("observation", "info")
MOST_NAMED = 4
"""A label lists the names of at most MOST_NAMED games."""


@dataclass(frozen=True)
class EnvConfig:
    """The settings of the environment. If a setting is None, the value of the protocol applies."""

    game: str = ""
    """Atari game by its ale-py name, such as pong or space_invaders, unless --env.id is given. With several games,
    separated by commas (pong,breakout), one agent plays all of them: environment i of the run plays game number i
    modulo the number of games."""
    id: str = ""
    """Gymnasium environment such as CartPole-v1, or module:function, unless --env.game is given."""
    kwargs: str = ""
    """Keyword arguments of the Gymnasium environment or of your function, as a JSON object such as {"is_slippery":
    false}."""
    action_mask: str = "observation"
    """Where the environment returns the mask of allowed actions: `observation` (the entry `action_mask` of a Dict
    observation) or `info` (as Gymnasium's Taxi does). A mask in `info` becomes a part of the observation."""
    protocol: str = "stooke2018"
    """Rules of the Atari game: stooke2018, mnih2015 (Nature DQN), nair2015 (Gorila), machado2018 (sticky actions),
    dopamine2018, impala2018, dqn_zoo2020, cleanrl2022 (wrappers of OpenAI baselines) or cleanba2023 (EnvPool)."""
    frame_skip: int | None = None
    """Number of emulated frames per action, 1 to 60 (Mnih et al. 2015: 4)."""
    repeat_action_probability: float | None = None
    """Probability of sticky actions: with this probability, an emulated frame repeats the last frame's action (Machado
    et al. 2018: 0.25)."""
    noop_min: int | None = None
    """Minimum number of emulated no-op frames after a reset (OpenAI baselines: 1)."""
    noop_max: int | None = None
    """Maximum number of emulated no-op frames after a reset, 0 to 1000 (Mnih et al. 2015: 30)."""
    fire_reset: str | None = None
    """Actions that are played automatically before the agent acts. `none` plays no actions. `frame` presses FIRE for
    one frame after a reset (EnvPool). `steps` plays FIRE and the third action for one step each, after a reset and
    after a lost life that ends the return (OpenAI baselines). FIRE is pressed only in games that have this action.
    `steps` does not work with --sampler.engine device."""
    life_loss_ends_return: bool | None = None
    """In training, the loss of a life ends the return, but not the episode (Mnih et al. 2015: yes)."""
    max_episode_steps: int | None = None
    """Time limit of an episode in agent steps. In Atari games, this limit applies only to training (27,000 steps are 30
    minutes)."""
    max_evaluation_steps: int | None = None
    """Time limit of an evaluation episode in agent steps (Mnih et al. 2015: 4,500 steps, which are 5 minutes)."""
    full_action_set: bool | None = None
    """Use all 18 joystick actions instead of the game's minimal set (Machado et al. 2018: yes). With several games, the
    default is all 18 actions."""
    frame: str | None = None
    """Size of the picture: 104x80 (every second pixel), 104x80-mean (means of 2x2 pixels) or 84x84 (area averages; Mnih
    et al. 2015)."""
    stack: int | None = None
    """Number of stacked frames of an image observation, 1 to 32 (Mnih et al. 2015: 4)."""
    mode: int | None = None
    """Mode switch of the game, as in ale-py; by default the game's default mode."""
    difficulty: int | None = None
    """Difficulty switch of the game, as in ale-py; by default the game's default difficulty."""
    backend: str = "auto"
    """Program that plays Atari games: `ale` (ale-py) or `emulator` (this project's emulator, which computes the same
    frames several times as fast). `auto` selects the emulator if it is compiled and plays the game, and otherwise
    ale."""
    randomness: str = "auto"
    """Source of the random numbers for Atari's resets and sticky actions. With `sequence`, each episode has a random
    number generator, and the console's timer is set by ale-py's generator. With `counter`, which needs the emulator,
    each random number is a function of seed, episode and step (Philox, Salmon et al. 2011), and is the same on CPUs and
    GPUs. `auto` means `counter` with --sampler.engine device, and otherwise `sequence`."""
    translate: str = "auto"
    """With `auto`, the game's ROM is translated to C++ and compiled in the background, once per machine, and then
    emulated faster, with the same results. On a GPU, the run waits until NVRTC has compiled the game. With `off`, the
    emulator interprets the game's ROM."""
    restore: str = "replay"
    """How a resumed run continues an episode of a Gymnasium environment. `replay` restores the environment's saved
    state, or plays the episode's actions again if the environment cannot save its state. `new` truncates the episode
    and begins another one."""

    @property
    def games(self) -> tuple[str, ...]:
        """The names of the Atari games. Environment i of the run plays games[i % len(games)]."""
        return tuple(game.strip() for game in self.game.split(",")) if self.game else ()

    @property
    def label(self) -> str:
        """Short name of the environment, such as pong,breakout or 26 games."""
        n = len(self.games)
        return f"{n} games" if n > MOST_NAMED else self.game or self.id

    def overrides(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in OVERRIDES if getattr(self, name) is not None}

    def rules(self) -> Protocol:
        """Return the Atari protocol, with the values of all settings that are not None. Raises ConfigError."""
        return resolve(self.protocol, self.overrides())

    def keywords(self) -> dict[str, Any]:
        """Parse `kwargs`. Raises ConfigError."""
        try:
            keywords = json.loads(self.kwargs or "{}")
        except ValueError:
            keywords = None
        if not isinstance(keywords, dict):
            raise ConfigError(f"kwargs={self.kwargs!r}: must be a JSON object, as in '{{\"is_slippery\": false}}'")
        return keywords

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_dict(cls, d: Mapping[str, Any]) -> Self:
        """Raises ConfigError for an unknown key."""
        names = [f.name for f in fields(cls)]
        for key in d:
            if key not in names:
                raise ConfigError(f"{key!r} is no setting of an environment" + nearest(key, names))
        return cls(**d)


@dataclass(frozen=True)
class ResolvedEnv(EnvConfig):
    """The settings of an environment in which every value `auto` has been replaced. Environments are created only from
    a `ResolvedEnv`.

    The backend of an Atari game is ale or emulator. A Gymnasium environment has no backend, so its `backend` is auto.
    """

    def __post_init__(self) -> None:
        assert self.randomness != "auto" and (self.backend != "auto" or not self.game), "not resolved"

    @property
    def mask_in_info(self) -> bool:
        return self.action_mask == "info"

    @property
    def is_emulated(self) -> bool:
        return bool(self.game) and self.backend == "emulator"

    @property
    def is_counter(self) -> bool:
        """Whether each random number is a function of seed, episode and step (--env.randomness counter)."""
        return self.randomness == "counter"

    def check(self, start_timeout_s: float | None = None) -> None:
        """Raise ConfigError if the environment cannot be created. `start_timeout_s` is that of `make_spec`."""
        make_spec(self, True, start_timeout_s=start_timeout_s)  # The spec is cached.


def resolve_env(config: EnvConfig, randomness: str = "sequence") -> ResolvedEnv:
    """Replace the values `auto` of all settings. The value `auto` of --env.randomness is replaced by the argument
    `randomness`. Raises ConfigError for an unknown name."""
    for name, allowed in (
        ("randomness", RANDOMNESS),
        ("backend", BACKENDS),
        ("translate", TRANSLATE),
        ("restore", RESTORE),
        ("action_mask", ACTION_MASKS),
    ):
        if (value := getattr(config, name)) not in allowed:
            raise ConfigError(
                f"{name}={value!r} is unknown: must be one of {', '.join(allowed)}" + nearest(value, allowed)
            )
    check_id(config.id)
    games, full_action_set = config.games, config.full_action_set
    check_games(games)
    if len(games) > 1 and full_action_set is None:
        full_action_set = True
    backend = config.backend
    if backend == "auto" and config.game:
        from accel_rl.emulator.games import is_emulated

        rules = config.rules()
        emulated = all(is_emulated(game, rules.frame, rules.mode) for game in games) and emulator_is_built()
        backend = "emulator" if emulated else "ale"
    chosen = {"backend": backend, "randomness": randomness if config.randomness == "auto" else config.randomness}
    of_games = {"game": ",".join(games), "full_action_set": full_action_set}
    return ResolvedEnv(**config.to_dict() | chosen | of_games)


def emulator_is_built() -> bool:
    """Return whether the emulator can be imported. If the import fails, print the reason once."""
    from accel_rl.emulator.atari import core

    try:
        core()
    except ConfigError as e:
        say_once(f"{e}; until then Atari is played by ale-py, several times slower")
        return False
    return True


def make_env(config: ResolvedEnv, seed: int, training: bool, cached: bool = False, index: int = 0) -> Env:
    """Create a single environment. `seed` is a whole number >= 0. With `cached`, every episode begins by restoring the
    same state. `index`, the environment's index in the run, determines its game. Raises ConfigError."""
    if bool(config.game) == bool(config.id):
        got = f"game={config.game!r} and id={config.id!r}"
        raise ConfigError(f"{got}: give an Atari game or a Gymnasium id, one of the two")
    if config.game:
        game = config.games[index % len(config.games)]
        check_game(game)
        if config.kwargs:
            raise ConfigError(f"kwargs={config.kwargs!r} is for Gymnasium environments: game={config.game!r} is none")
        rules = config.rules()
        if config.is_emulated:
            from accel_rl.envs.emulator import EmulatorEnv

            translate = config.translate == "auto"
            return EmulatorEnv(game, rules, seed, training, cached, config.is_counter, translate)
        if config.is_counter:
            raise ConfigError("randomness=counter: only with backend=emulator")
        # ale-py and OpenCV are imported only when needed, because the imports take time.
        from accel_rl.envs.ale import AtariEnv

        return AtariEnv(game, rules, seed, training, cached)
    stack, limit = _gymnasium_settings(config, training, cached)
    from accel_rl.envs.gymnasium import GymnasiumEnv

    return GymnasiumEnv(
        *(config.id, seed, stack, limit),
        kwargs=config.keywords(),
        index=index,
        training=training,
        restore=config.restore,
        mask_in_info=config.mask_in_info,
    )


def _gymnasium_settings(config: ResolvedEnv, training: bool, cached: bool) -> tuple[int, int | None]:
    """Return (number of stacked frames, time limit). Raises ConfigError for settings that apply only to Atari games."""
    if config.backend != "auto":
        raise ConfigError(f"backend={config.backend!r} is for Atari games: id={config.id!r} is none")
    if config.is_counter:
        raise ConfigError(f"randomness=counter is for Atari games: id={config.id!r} is none")
    if cached:
        raise ConfigError(f"reset='cached' is for Atari games: id={config.id!r} is none; use immediate, wait or swap")
    overrides = config.overrides()
    limit, evaluation_limit = (overrides.pop(name, None) for name in ("max_episode_steps", "max_evaluation_steps"))
    for steps in (limit, evaluation_limit):
        if steps is not None and steps < 1:
            raise ConfigError(f"max_episode_steps={steps}: must be a whole number from 1")
    stack = resolve(config.protocol, {"stack": overrides.pop("stack", None)}).stack
    for name, value in overrides.items():
        raise ConfigError(f"{name}={value!r} is for Atari games: id={config.id!r} is none")
    limits = (limit, None if training else evaluation_limit)
    return stack, min((n for n in limits if n is not None), default=None)


def played_by(config: EnvConfig, backend: str) -> EnvConfig:
    """Return the settings with the given backend, or unchanged if `backend` is "". Raises ConfigError if the backend
    cannot play the environment."""
    if not backend:
        return config
    env = resolve_env(EnvConfig(**config.to_dict() | {"backend": backend}))
    env.check()
    return env


def make_spec(
    config: ResolvedEnv, training: bool, reset: str = "immediate", start_timeout_s: float | None = None
) -> EnvSpec:
    """Return the spec of the environment. The spec's protocol records whether --sampler.reset can change episodes. With
    `start_timeout_s`, a user's environment is created in another process, because its code may block or crash. Raises
    ConfigError."""
    spec = _inspected(config, training, reset == "cached", start_timeout_s)
    if "autoreset" in spec.protocol:
        if reset != "immediate":
            raise ConfigError(f"reset={reset!r}: the vector environment {config.id} resets itself; use immediate")
        if (limit := config.max_episode_steps) is not None:
            raise ConfigError(f"max_episode_steps={limit}: the vector environment {config.id} has its own time limit")
    if reset not in ("swap", "cached") and not config.is_counter:
        return spec
    label = {"reset": reset, "reset_exact": inexact_reset(config, reset) is None}
    return replace(spec, protocol=spec.protocol | label)


def inexact_reset(config: ResolvedEnv, reset: str) -> str | None:
    """Return why episodes may differ from ale-py's with immediate resets, or None if they are the same."""
    if config.is_counter and reset == "cached":
        return "episodes begin in a few stored start states"
    reset = "swap" if config.is_counter else reset
    return next(filter(None, (unclean_reset(game, reset) for game in config.games)), None)


# The spec is cached, so that the checks, the plan and the run together create only one environment.
@lru_cache(maxsize=256)
def _inspected(config: ResolvedEnv, training: bool, cached: bool, start_timeout_s: float | None) -> EnvSpec:
    with children_killed() if config.id else nullcontext():
        if start_timeout_s is not None and config.id and not config.game:
            stack, limit = _gymnasium_settings(config, training, cached)
            from accel_rl.envs.inspection import inspected, is_of_user

            if is_of_user(config.id):
                config.keywords()
                return inspected(config.id, config.kwargs, stack, start_timeout_s, config.mask_in_info).limited(limit)
        env: Env | BatchEnv = vectorized(config, [0], training) or make_env(config, 0, training, cached)
        env.close()
    for i, game in enumerate(config.games[1:], 1):
        other = make_env(config, 0, training, cached, i)
        other.close()
        if other.spec.action_meanings != env.spec.action_meanings:
            hint = "; leave out --env.full-action-set False" if config.full_action_set is False else ""
            difference = (
                f"{game} has other actions ({other.spec.n_actions}) than {config.games[0]} ({env.spec.n_actions})"
            )
            raise ConfigError(f"game={config.game!r}: {difference}{hint}")
    if len(config.games) > 1 and config.full_action_set:
        say_once(f"{len(config.games)} games: the agent has all {env.spec.n_actions} actions (--env.full-action-set)")
    return replace(env.spec, name=config.label)


def vectorized(
    config: ResolvedEnv, seeds: list[int], training: bool, first_index: int = 0, device: str = "cpu"
) -> "VectorizedEnv | None":
    """Create a user's vector environment, or return None if the settings do not name one."""
    if not config.id or config.game:
        return None
    from accel_rl.envs.vectorized import VectorizedEnv, is_vectorized

    if not is_vectorized(config.id):
        return None
    stack, _ = _gymnasium_settings(config, training, cached=False)
    mask = config.mask_in_info
    return VectorizedEnv(config.id, len(seeds), seeds[0], stack, config.keywords(), first_index, training, device, mask)


def make_batch(
    config: ResolvedEnv,
    seeds: list[int],
    training: bool,
    reset: str = "immediate",
    decorrelation_steps: int = 0,
    starts: StartOrder | None = None,
    first_index: int = 0,
) -> BatchEnv:
    """Create a batch with one environment per seed. The environments are stepped one after another, or together by a
    user's vector environment. With `starts`, Atari episodes begin at saved start points. `first_index` is the first
    environment's index in the run. Other arguments are those of `SequentialEnv`. Raises ConfigError."""
    if (batch := vectorized(config, seeds, training, first_index)) is not None:
        return batch
    envs: list[Any] = [
        make_env(config, seed, training, reset == "cached", first_index + i) for i, seed in enumerate(seeds)
    ]
    if starts is not None:
        assert config.game and reset == "immediate" and not decorrelation_steps
        for env, saved in zip(envs, starts.of(len(envs)), strict=True):
            env.starts = saved
    if reset == "swap":
        reserves = [make_env(config, seed, training, index=first_index + i) for i, seed in enumerate(seeds)]
        envs = [ReservedEnv(env, reserve) for env, reserve in zip(envs, reserves, strict=True)]
    if config.is_emulated:
        from accel_rl.envs.emulator import EmulatorBatch

        return EmulatorBatch(envs, reset, decorrelation_steps, seeds)
    return SequentialEnv(envs, reset, decorrelation_steps, seeds)
