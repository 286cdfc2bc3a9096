"""The options of EnvPool's Atari games, checks of these options, and EnvPool's spec of a task."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from gymnasium.spaces import Box, Discrete

from accel_rl.emulator.games import action_codes, check_game, rom_path, task_game, vector_games
from accel_rl.emulator.vector_options import NO_LIMIT, RAM_BYTES, SIDE
from accel_rl.text.errors import ConfigError, nearest


class Config(NamedTuple):
    """EnvPool's options, with the names, order and defaults of EnvPool 1.2.5."""

    num_envs: int = 1
    batch_size: int = 0
    num_threads: int = 0
    max_num_players: int = 1
    thread_affinity_offset: int = -1
    base_path: str = ""
    seed: int = 42
    env_seed: list[int] = []  # noqa: RUF012
    gym_reset_return_info: bool = True
    max_episode_steps: int = 27_000
    stack_num: int = 4
    frame_skip: int = 4
    noop_max: int = 30
    zero_discount_on_life_loss: bool = False
    episodic_life: bool = False
    reward_clip: bool = False
    use_fire_reset: bool = True
    img_height: int = SIDE
    img_width: int = SIDE
    task: str = ""
    mode: int = -1
    difficulty: int = -1
    full_action_space: bool = False
    repeat_action_probability: float = 0.0
    use_inter_area_resize: bool = True
    gray_scale: bool = True


DEFAULTS = Config()._asdict()
# `ONLY` lists the options for which the emulator supports a single value.
# The values of base_path and task are computed.
ONLY = (
    *("max_num_players", "base_path", "gym_reset_return_info", "img_height", "img_width", "task"),
    *("use_inter_area_resize", "gray_scale"),
)
INT = np.iinfo(np.int32)


class ArraySpec(NamedTuple):
    """An axis of -1 in a shape is the axis of the environments, because each game has one player."""

    dtype: type
    shape: list[int]
    minimum: float
    maximum: float


class players(NamedTuple):  # The names of `players` and `State` are EnvPool's.
    env_id: Any


class State(NamedTuple):
    """Arrays [batch, ...] of an observation and its infos, or their specs."""

    env_id: Any
    players: Any
    obs: Any
    lives: Any
    reward: Any
    terminated: Any
    ram: Any


class Spec:
    """The spec of a task: `config` has the options as attributes, such as config.max_episode_steps. The methods
    observation_spec() and action_spec() need the package dm-env. Raises ConfigError for an option that the emulator
    does not have."""

    reward_threshold = None

    def __init__(self, task_id: str, options: dict[str, Any]) -> None:
        self.game = task_ids().get(task_id) or task_game(task_id)
        check_game(self.game, vector_games())
        for name, value in options.items():
            if name not in DEFAULTS:
                raise ConfigError(f"{name}: must be one of {', '.join(DEFAULTS)}" + nearest(name, list(DEFAULTS)))
            if name in ONLY and value != DEFAULTS[name]:
                raise ConfigError(f"{name}={value!r}: must be {DEFAULTS[name]!r}; for others use EnvPool itself")
        config = {**DEFAULTS, **options, "task": self.game, "base_path": str(rom_path(self.game).parent)}
        for name in ("noop_max", "max_episode_steps", "num_envs"):
            number = config[name]
            if not isinstance(number, int | np.integer) or not 1 <= number <= NO_LIMIT:
                raise ConfigError(f"{name}={number!r}: must be a whole number from 1 to {NO_LIMIT}")
        if isinstance(config["seed"], Sequence | np.ndarray):
            if "env_seed" in options:
                raise ConfigError("seed and env_seed: only one of them can be a list")
            config["seed"], config["env_seed"] = 0, config["seed"]
        config["env_seed"] = list(config["env_seed"])
        for seed in [config["seed"], *config["env_seed"]]:
            if not isinstance(seed, int | np.integer) or not INT.min <= seed <= INT.max:
                raise ConfigError(f"seed={seed!r}: must be a whole number from -2^31 to 2^31 - 1")
        if len(config["env_seed"]) not in (0, config["num_envs"]):
            raise ConfigError(
                f"{len(config['env_seed'])} seeds: must be num_envs={config['num_envs']}, or one whole number"
            )
        config["env_seed"] = [int(seed) for seed in config["env_seed"]]
        config["batch_size"] = config["batch_size"] or config["num_envs"]
        config["repeat_action_probability"] = float(np.float32(config["repeat_action_probability"]))
        self.config = Config(**config)
        self.actions = len(action_codes(self.game, config["full_action_space"]))
        self.observation_space = self.gymnasium_observation_space = Box(
            0, 255, (config["stack_num"], SIDE, SIDE), np.uint8
        )
        self.action_space = self.gymnasium_action_space = Discrete(self.actions)

    @property
    def seeds(self) -> np.ndarray:
        """The seeds of the environments, [num_envs] int64, from 0 to 2^32 - 1."""
        c = self.config
        return np.array(c.env_seed or c.seed + np.arange(c.num_envs), np.int64) % 2**32

    @property
    def state_array_spec(self) -> dict[str, ArraySpec]:
        number = ArraySpec(np.int32, [], INT.min, INT.max)
        numbers = ArraySpec(np.int32, [-1], INT.min, INT.max)
        points = ArraySpec(np.float32, [-1], float(np.finfo(np.float32).tiny), float(np.finfo(np.float32).max))
        return {
            "info:env_id": number,
            "info:players.env_id": numbers,
            "elapsed_step": number,
            "done": ArraySpec(np.bool_, [], False, True),
            "reward": points,
            "discount": ArraySpec(np.float32, [-1], 0.0, 1.0),
            "step_type": number,
            "trunc": ArraySpec(np.bool_, [], False, True),
            "obs": ArraySpec(np.uint8, list(self.observation_space.shape), 0, 255),
            "info:lives": numbers,
            "info:reward": points,
            "info:terminated": ArraySpec(np.int32, [-1], 0, 1),
            "info:ram": ArraySpec(np.uint8, [RAM_BYTES], 0, 255),
        }

    @property
    def action_array_spec(self) -> dict[str, ArraySpec]:
        return {
            "env_id": ArraySpec(np.int32, [], INT.min, INT.max),
            "players.env_id": ArraySpec(np.int32, [-1], INT.min, INT.max),
            "action": ArraySpec(np.int32, [-1], 0, self.actions - 1),
        }

    def observation_spec(self) -> State:
        """dm_env's specs of an observation and of the infos."""
        infos = {
            name.removeprefix("info:"): _dm_spec(name.removeprefix("info:"), spec)
            for name, spec in self.state_array_spec.items()
            if name.startswith(("obs", "info:"))
        }
        infos.pop("players.env_id")
        return State(players=players(_dm_spec("env_id", self.state_array_spec["info:players.env_id"])), **infos)

    def action_spec(self) -> Any:
        return _dm_spec("action", self.action_array_spec["action"])

    def __repr__(self) -> str:
        return f"AtariEnvSpec{repr(self.config)[len('Config') :]}"


def task_ids() -> dict[str, str]:
    """{EnvPool's id, such as MsPacman-v5: game}. Of EnvPool's ids, only TicTacToe3d-v5 differs from Gymnasium's."""
    return {f"{''.join(word.capitalize() for word in game.split('_'))}-v5": game for game in vector_games()}


def imported_dm_env() -> Any:
    try:
        import dm_env
    except ImportError:
        raise ConfigError("env_type='dm' needs dm-env: pip install dm-env, or use env_type='gymnasium'") from None
    return dm_env


def _dm_spec(name: str, spec: ArraySpec) -> Any:
    specs = imported_dm_env().specs
    if spec.minimum == 0 and spec.dtype is np.int32:
        return specs.DiscreteArray(int(spec.maximum) + 1, spec.dtype, name)
    shape = [length for length in spec.shape if length != -1]
    return specs.BoundedArray(shape, spec.dtype, spec.minimum, spec.maximum, name)
