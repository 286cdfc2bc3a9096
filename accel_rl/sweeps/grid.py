"""A grid contains a training run for each combination of values from its levels. The settings within one level change
together.

    def sizes() -> Grid:
        return grid(
            default_config("ppo"),
            {"game": ("pong", "breakout")},
            {"envs": (8, 64), "horizon": (256, 32)},
            seeds=(0, 1),
        )

The grid in this example contains 2 x 2 x 2 = 8 runs. The keys of a level are settings of `TrainConfig`, as on the
command line. If the grid's first argument is a function that returns a `TrainConfig`, a key may also name a parameter
of the function. The decorator `@levels(...)` defines the levels with which an experiment is run as a sweep.
"""

import inspect
import itertools
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from accel_rl.algos.dqn import DQNConfig
from accel_rl.envs.atari_games import GAME_LISTS
from accel_rl.planning.plan import RankPlan
from accel_rl.settings import flags
from accel_rl.settings.flags import with_setting
from accel_rl.settings.registry import check_call, find
from accel_rl.settings.resolved import resolve
from accel_rl.settings.train import TrainConfig
from accel_rl.settings.types import settings_in
from accel_rl.sweeps.idle import patient
from accel_rl.sweeps.layout import Needs, RunOptions, needs_of
from accel_rl.text.errors import ConfigError, nearest

Make = Callable[..., TrainConfig]
M = TypeVar("M", bound=Make)
PLAIN = ("game", "algorithm")  # In folder names, values of these settings appear without the settings' names.


@dataclass(frozen=True)
class Level:
    """A list of values of one setting, or of several settings that change together. In folder names, the values are
    replaced by `names`, if given.

    `gpus` and `cores` list the numbers of GPUs and cores that runs with each of the level's values request. A
    synchronous run without `distributed.ranks` has one rank per assigned GPU.
    """

    values: Mapping[str, Sequence[Any]]
    names: Sequence[str] = ()
    gpus: Sequence[int] = ()
    cores: Sequence[int] = ()

    def positions(self) -> list["Position"]:
        """The level's positions in order. Raises ConfigError for an invalid level."""
        lengths = {key: len(values) for key, values in self.values.items()}
        if not lengths or not all(lengths.values()):
            empty = next((key for key, n in lengths.items() if not n), "{}")
            raise ConfigError(f"level {empty!r} is empty: it needs at least one value")
        if len(set(lengths.values())) > 1:
            raise ConfigError(f"keys of one level go together, but {_counts(lengths)}; cross them as two levels")
        n = next(iter(lengths.values()))
        for what in ("names", "gpus", "cores"):
            if (entries := getattr(self, what)) and len(entries) != n:
                raise ConfigError(f"level {', '.join(lengths)}: {len(entries)} {what} for {n} values")
        for what in ("gpus", "cores"):
            for entry in getattr(self, what):
                if isinstance(entry, bool) or not isinstance(entry, int) or entry < 1:
                    raise ConfigError(f"level {', '.join(lengths)}: {what} {entry!r}: must be a whole number from 1 on")
        keys = list(self.values)
        result = []
        for i in range(n):
            value = {key: self.values[key][i] for key in keys}
            label = {"+".join(keys): self.names[i]} if self.names else {key: named(v) for key, v in value.items()}
            gpus, cores = (entries[i] if entries else 0 for entries in (self.gpus, self.cores))
            result.append(Position(value, label, gpus, cores))
        return result


@dataclass(frozen=True)
class Position:
    """One entry of a level: a value for each of the level's settings, labels for folder names, and the number of
    requested GPUs and cores."""

    values: Mapping[str, Any]
    labels: Mapping[str, str]
    gpus: int = 0
    cores: int = 0


def _counts(lengths: Mapping[str, int]) -> str:
    return " and ".join(f"{key} has {n} values" for key, n in lengths.items())


def named(value: Any) -> str:
    """Format a setting's value for a folder name."""
    if isinstance(value, float):
        text = format(value, "g")
    elif isinstance(value, tuple | list):
        text = "x".join(named(v) for v in value)
    else:
        text = str(value)
    return "".join("_" if c in "/\\:, \t\n" else c for c in text) or "none"


@dataclass(frozen=True)
class GridMember:
    """A run of a grid. `labels` maps the name of each level to the run's value; no two runs have the same labels.
    `gpus` and `cores` are the numbers that the run requests; if 0, they follow from the run's configuration."""

    config: TrainConfig
    labels: Mapping[str, str] = field(default_factory=dict)
    gpus: int = 0
    cores: int = 0

    @property
    def needs(self) -> Needs:
        derived = needs_of(self.config)
        return replace(derived, gpus=self.gpus or derived.gpus, cores=self.cores or derived.cores)

    @property
    def name(self) -> str:
        """The name of the run, which is also the name of its folder, such as pong,envs=16,seed=0."""
        parts = [v if k in PLAIN else f"{k.rpartition('.')[2]}={v}" for k, v in self.labels.items()]
        return ",".join(parts) or "run"


@dataclass(frozen=True)
class Grid:
    """A set of training runs with unique names. The sum of two grids contains the runs of both grids."""

    members: tuple[GridMember, ...]

    def __post_init__(self) -> None:
        seen: set[str] = set()
        for member in self.members:
            if member.name in seen:
                raise ConfigError(f"two runs of the grid are named {member.name!r}: a level holds a value twice")
            seen.add(member.name)

    def __add__(self, other: "Grid") -> "Grid":
        return Grid(self.members + other.members)

    def only(self, chosen: Mapping[str, Sequence[str]]) -> "Grid":
        """Return a grid of the runs that have one of the chosen values at each level in `chosen`. The name of a list of
        games, such as atari5, means the games of the list that are in the grid. Raises ConfigError for an unknown level
        or value, or if the grid has no game of the list."""
        members = list(self.members)
        for key, values in chosen.items():
            labels = list(dict.fromkeys(m.labels[key] for m in self.members if key in m.labels))
            if not labels:
                keys = list(dict.fromkeys(k for m in self.members for k in m.labels))
                raise ConfigError(f"the grid has no level {key!r}; it has: {', '.join(keys)}{nearest(key, keys)}")
            wanted: list[str] = []
            for value in values:
                of_value = GAME_LISTS.get(value, (value,)) if key == "game" else (value,)
                if not (in_grid := [x for x in of_value if x in labels]):
                    raise ConfigError(f"level {key} has no value {value!r}; it has: {', '.join(labels)}")
                wanted += in_grid
            members = [m for m in members if m.labels.get(key) in wanted]
        return Grid(tuple(members))

    def changed(self, change: Callable[[TrainConfig], TrainConfig]) -> "Grid":
        return Grid(tuple(replace(m, config=change(m.config)) for m in self.members))


def grid(
    base: TrainConfig | Make, *crossed: Level | Mapping[str, Sequence[Any]], seeds: Sequence[int] | None = None
) -> Grid:
    """Return the grid of all combinations of the levels and the seeds. Raises ConfigError."""
    stages = [x if isinstance(x, Level) else Level(x) for x in crossed]
    if seeds is not None:
        stages.append(Level({"seed": tuple(seeds)}))
    keys = [key for level in stages for key in level.values]
    if twice := [k for k in dict.fromkeys(keys) if keys.count(k) > 1]:
        raise ConfigError(f"{twice[0]!r} is in two levels")
    set_all = _settings(base, keys) if isinstance(base, TrainConfig) else _checked_function(base, keys)
    members = []
    for combination in itertools.product(*(level.positions() for level in stages)):
        config = set_all({k: v for p in combination for k, v in p.values.items()})
        labels = {k: v for p in combination for k, v in p.labels.items()}
        gpus, cores = (max((getattr(p, what) for p in combination), default=0) for what in ("gpus", "cores"))
        members.append(GridMember(config, labels, gpus, cores))
    return Grid(tuple(members))


def _settings(base: TrainConfig, keys: Sequence[str]) -> Callable[[dict[str, Any]], TrainConfig]:
    flags = {key: full_name(base, key) for key in keys}

    def set_all(values: dict[str, Any]) -> TrainConfig:
        config = base
        for key, value in values.items():
            config = with_setting(config, flags[key], value)
        return config

    return set_all


def _checked_function(make: Make, keys: Sequence[str]) -> Callable[[dict[str, Any]], TrainConfig]:
    known = [*inspect.signature(make).parameters]
    for key in keys:
        if key not in known:
            name = getattr(make, "__name__", "the function")
            raise ConfigError(f"{name} has no parameter {key!r}{nearest(key, known)}; it has: {', '.join(known)}")

    def set_all(values: dict[str, Any]) -> TrainConfig:
        return make(**values)

    return set_all


def levels(*crossed: Level | Mapping[str, Sequence[Any]], seeds: Sequence[int] = (0, 1)) -> Callable[[M], M]:
    """Decorate a function that returns a TrainConfig with the levels and seeds of its sweep."""

    def mark(make: M) -> M:
        make.levels, make.seeds = crossed, seeds  # type: ignore[attr-defined]
        return make

    return mark


def find_grid(name: str, seeds: Sequence[int] = ()) -> Grid:
    """Return the grid of the experiment `name`, a function `module:function`. A function that is decorated with
    `@levels` gives the grid of these levels. Any other function returns a grid, or the configuration of a single run.
    `seeds`, if not empty, replaces the seeds of `@levels`; a function that returns a grid receives them as its
    parameter `seeds`."""
    make = find(name, "experiment")
    if not callable(make) or isinstance(make, type):
        raise ConfigError(f"{name!r} is no function that returns a grid, such as stooke:a2c_scaling")
    try:
        if hasattr(make, "levels"):
            return grid(make, *make.levels, seeds=seeds or make.seeds)
        takes_seeds = bool(seeds) and "seeds" in inspect.signature(make).parameters
        check_call(name, make)
        result = make(seeds=tuple(seeds)) if takes_seeds else make()
        if isinstance(result, TrainConfig):
            return grid(result, seeds=seeds or (result.seed,))
    except ConfigError:
        raise
    except ValueError as e:
        raise ConfigError(f"{name}: {e}") from e
    if not isinstance(result, Grid):
        raise ConfigError(f"{name!r} returns {type(result).__name__}, not a grid (accel_rl.sweeps.grid.grid)")
    if seeds and not takes_seeds:
        raise ConfigError(f"--seeds: {name} has no parameter 'seeds'; choose among its seeds with --only seed=...")
    return result


def overridden(grid: Grid, changes: Mapping[str, str]) -> Grid:
    """Apply settings, written as on the command line, to every run of a grid. Raises ConfigError."""
    result: dict[tuple[type, str], tuple[str, Any]] = {}  # {(class of settings, key): (full name, value)}

    def change(config: TrainConfig) -> TrainConfig:
        for key, text in changes.items():
            changed_key = (type(config.algo), key)
            if changed_key not in result:
                result[changed_key] = parsed(config, key, text)
            config = with_setting(config, *result[changed_key])
        return config

    return grid.changed(change)


# An evaluation of fewer steps takes longer than its number of steps suggests, because episodes are played to their end.
FEW_STEPS = 100
MOST_EVALUATIONS = 10
# A scaled run has at least 20 periods (concurrent mode) or target-network intervals (Gorila cluster).
PERIODS = 20


def full_name(config: TrainConfig, key: str) -> str:
    """Return a setting's full name, such as env.game for game. Raises ConfigError with similar names if the setting is
    unknown."""
    try:
        return flags.full_name(config, key)
    except ConfigError as e:
        raise ConfigError(f"key {key!r} of the grid: {e}") from e


def parsed(config: TrainConfig, key: str, text: str) -> tuple[str, Any]:
    """Parse a setting as on the command line, and return (full name, value). Raises ConfigError."""
    name = full_name(config, key)
    setting = next(s for s in settings_in(config) if s.name == name)
    return name, setting.read(text.split() if setting.takes_many else [text])


def scaled(config: TrainConfig, scale: float) -> TrainConfig:
    """Return a run's settings with its length multiplied by `scale`, to test the run on a small machine.

    The length of the run, the interval and length of evaluations, the capacity of a replay and the decay of epsilon
    are scaled. Networks, batch sizes, learning rates and target-network intervals are not scaled. Four limits apply:
    - A run on a Gorila cluster has at least PERIODS target-network intervals, and all its bundles and shards.
    - A concurrent run has at least PERIODS periods, because a run of a single period would not learn.
    - A replay has a capacity of at least two batches and a rollout.
    - Evaluations of fewer than FEW_STEPS steps, or of a given number of episodes, are played at most MOST_EVALUATIONS
      times, because evaluations play complete episodes and would take longer than the training between them.
    """
    evaluation, env_steps = config.evaluation, max(1, round(config.env_steps * scale))

    def share(n: int) -> int:
        return max(1, round(n * scale)) if n else 0

    interval = share(evaluation.interval)
    steps = share(evaluation.steps)
    if interval and (evaluation.episodes or steps < FEW_STEPS):
        interval = max(interval, -(-env_steps // MOST_EVALUATIONS))
    algo: Any = config.algo
    if config.schedule == "concurrent":
        each = config.sampler.envs * (config.sampler.horizon or 1)
        period = max(each, env_steps // PERIODS // each * each)
        algo = replace(algo, target_interval=min(algo.target_interval, period))
        config = replace(config, algo=algo)  # In a concurrent run, the period determines the horizon (config.T).
    if isinstance(algo, DQNConfig):
        ranks = config.distributed.size  # The replay is divided among the ranks.
        rollout = algo.least_rows(config.T) * config.rank_envs
        size = max(share(algo.replay.size), 2 * algo.batch_size * ranks, rollout * ranks)
        replay = replace(algo.replay, size=size, start=share(algo.replay.start))
        decay = None if algo.epsilon_steps is None else share(algo.epsilon_steps)
        algo = replace(algo, replay=replay, epsilon_steps=decay)
    gorila = config.gorila
    if gorila.updates:
        gorila = replace(gorila, updates=share(gorila.updates))
    if config.mode.has_members and isinstance(algo, DQNConfig):
        updates = gorila.updates or round(env_steps * algo.intensity / algo.transitions_per_update)
        algo = replace(algo, target_interval=min(algo.target_interval, max(1, updates // PERIODS)))
    return replace(
        config,
        algo=algo,
        gorila=gorila,
        env_steps=env_steps,
        evaluation=replace(evaluation, interval=interval, steps=steps),
    )


def pairs(flag: str, words: Sequence[str]) -> dict[str, str]:
    """Parse words of the form KEY=VALUE into a dict, or raise ConfigError."""
    result = {}
    for word in words:
        key, equals, value = word.partition("=")
        if not (key and equals and value):
            raise ConfigError(f"{flag} {word}: wanted KEY=VALUE")
        if key in result:
            raise ConfigError(f"{flag} {word}: {key} is given twice")
        result[key] = value
    return result


def prepared(grid: Grid, o: RunOptions) -> Grid:
    """Apply --scale, --override and --idle to the runs of a grid, and check the runs."""
    if not 0 < o.scale <= 1:
        raise ConfigError(f"--scale {o.scale}: must be above 0 and at most 1")
    if o.scale != 1:
        grid = grid.changed(lambda config: scaled(config, o.scale))
    grid = overridden(grid, pairs("--override", o.override))
    if o.idle:
        grid = grid.changed(patient)
    for member in grid.members:
        try:
            # Warnings about the number of cores do not apply, because the sweep assigns cores to runs.
            with warnings.catch_warnings(action="ignore"):
                RankPlan.resolve(resolve(member.config), device="cpu")
        except ConfigError as e:
            raise ConfigError(f"run {member.name}: {e}") from e
    return grid
