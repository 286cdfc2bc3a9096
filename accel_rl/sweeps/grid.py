"""In a grid of runs, levels are crossed, and the keys of one level change together (zipped).

    def sizes() -> Grid:
        return grid(
            default_config("ppo"),
            {"game": ("pong", "breakout")},
            {"envs": (8, 64), "horizon": (256, 32)},
            seeds=(0, 1),
        )

This grid has eight runs. The keys are settings of `TrainConfig`, as on the command line, or parameters of the first
argument if it is a function that returns a `TrainConfig`. `@levels(...)` gives an experiment the levels of its sweep.
"""

import inspect
import itertools
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from accel_rl.algos.dqn import DQNConfig
from accel_rl.config import flags
from accel_rl.config.flags import with_setting
from accel_rl.config.registry import find
from accel_rl.config.resolved import resolve
from accel_rl.config.train import TrainConfig
from accel_rl.runners.plan import RankPlan
from accel_rl.sweeps.layout import Needs, needs_of
from accel_rl.system.errors import ConfigError, nearest

Make = Callable[..., TrainConfig]
M = TypeVar("M", bound=Make)
PLAIN = ("game", "algorithm")  # Folder names omit these keys.


@dataclass(frozen=True)
class Level:
    """Values of one key, or of several keys that change together. `names` are the names of the positions in folder
    names.

    `gpus` and `cores` are the numbers that the runs at each position request, instead of those of the configuration
    (`Needs`). A synchronous run without `distributed.ranks` has one rank per assigned GPU.
    """

    values: Mapping[str, Sequence[Any]]
    names: Sequence[str] = ()
    gpus: Sequence[int] = ()
    cores: Sequence[int] = ()

    def positions(self) -> list["Position"]:
        """Return the positions of the level, in order. Raises ConfigError."""
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
    """One position of a level: the value of each key, its labels in folder names, and the requested GPUs and cores."""

    values: Mapping[str, Any]
    labels: Mapping[str, str]
    gpus: int = 0
    cores: int = 0


def _counts(lengths: Mapping[str, int]) -> str:
    return " and ".join(f"{key} has {n} values" for key, n in lengths.items())


def named(value: Any) -> str:
    """Format a value for a folder name."""
    if isinstance(value, float):
        text = format(value, "g")
    elif isinstance(value, tuple | list):
        text = "x".join(named(v) for v in value)
    else:
        text = str(value)
    return "".join("_" if c in "/\\:, \t\n" else c for c in text) or "none"


@dataclass(frozen=True)
class Member:
    """One run of a grid. `labels` is {level: value}, unique in the grid. `gpus` and `cores` are the numbers that its
    levels request; 0 means the numbers that its configuration needs."""

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
        """Name of the run's folder, such as pong,envs=16,seed=0."""
        parts = [v if k in PLAIN else f"{k.rpartition('.')[2]}={v}" for k, v in self.labels.items()]
        return ",".join(parts) or "run"


@dataclass(frozen=True)
class Grid:
    """Runs with unique names. Two grids can be added. Raises ConfigError."""

    members: tuple[Member, ...]

    def __post_init__(self) -> None:
        seen: set[str] = set()
        for member in self.members:
            if member.name in seen:
                raise ConfigError(f"two runs of the grid are named {member.name!r}: a level holds a value twice")
            seen.add(member.name)

    def __add__(self, other: "Grid") -> "Grid":
        return Grid(self.members + other.members)

    def only(self, chosen: Mapping[str, Sequence[str]]) -> "Grid":
        """Select the runs whose levels have one of these values. Raises Raises ConfigError for an unknown level or
        value."""
        members = list(self.members)
        for key, values in chosen.items():
            there = list(dict.fromkeys(m.labels[key] for m in self.members if key in m.labels))
            if not there:
                keys = list(dict.fromkeys(k for m in self.members for k in m.labels))
                raise ConfigError(f"the grid has no level {key!r}; it has: {', '.join(keys)}{nearest(key, keys)}")
            for value in values:
                if value not in there:
                    raise ConfigError(f"level {key} has no value {value!r}; it has: {', '.join(there)}")
            members = [m for m in members if m.labels.get(key) in values]
        return Grid(tuple(members))

    def changed(self, change: Callable[[TrainConfig], TrainConfig]) -> "Grid":
        return Grid(tuple(replace(m, config=change(m.config)) for m in self.members))


def grid(
    base: TrainConfig | Make, *crossed: Level | Mapping[str, Sequence[Any]], seeds: Sequence[int] | None = None
) -> Grid:
    """Cross the levels and the seeds. Raises ConfigError."""
    stages = [x if isinstance(x, Level) else Level(x) for x in crossed]
    if seeds is not None:
        stages.append(Level({"seed": tuple(seeds)}))
    keys = [key for level in stages for key in level.values]
    if twice := [k for k in dict.fromkeys(keys) if keys.count(k) > 1]:
        raise ConfigError(f"{twice[0]!r} is in two levels")
    set_all = _settings(base, keys) if isinstance(base, TrainConfig) else _parameters(base, keys)
    members = []
    for combination in itertools.product(*(level.positions() for level in stages)):
        config = set_all({k: v for p in combination for k, v in p.values.items()})
        labels = {k: v for p in combination for k, v in p.labels.items()}
        gpus, cores = (max((getattr(p, what) for p in combination), default=0) for what in ("gpus", "cores"))
        members.append(Member(config, labels, gpus, cores))
    return Grid(tuple(members))


def _settings(base: TrainConfig, keys: Sequence[str]) -> Callable[[dict[str, Any]], TrainConfig]:
    flags = {key: full_name(base, key) for key in keys}

    def set_all(values: dict[str, Any]) -> TrainConfig:
        config = base
        for key, value in values.items():
            config = with_setting(config, flags[key], value)
        return config

    return set_all


def _parameters(make: Make, keys: Sequence[str]) -> Callable[[dict[str, Any]], TrainConfig]:
    known = [*inspect.signature(make).parameters]
    for key in keys:
        if key not in known:
            name = getattr(make, "__name__", "the function")
            raise ConfigError(f"{name} has no parameter {key!r}{nearest(key, known)}; it has: {', '.join(known)}")

    def set_all(values: dict[str, Any]) -> TrainConfig:
        return make(**values)

    return set_all


def levels(*crossed: Level | Mapping[str, Sequence[Any]], seeds: Sequence[int] = (0, 1)) -> Callable[[M], M]:
    """Decorate a function that returns one configuration with the levels of its sweep."""

    def mark(make: M) -> M:
        make.levels, make.seeds = crossed, seeds  # type: ignore[attr-defined]
        return make

    return mark


def find_grid(name: str, seeds: Sequence[int] = ()) -> Grid:
    """Return the grid of `module:function`: the grid that the function returns, or the grid of its `@levels`, or a
    single run.

    `seeds` replaces the seeds of `@levels`. A function that returns a grid receives them as its parameter `seeds`.
    ConfigError.
    """
    make = find(name)
    if not callable(make) or isinstance(make, type):
        raise ConfigError(f"{name!r} is no function that returns a grid, such as stooke:a2c_scaling")
    try:
        if hasattr(make, "levels"):
            return grid(make, *make.levels, seeds=seeds or make.seeds)
        takes_seeds = bool(seeds) and "seeds" in inspect.signature(make).parameters
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
    """Apply settings, written as on the command line, to every run. Raises ConfigError."""
    result: dict[tuple[type, str], tuple[str, Any]] = {}  # Each text is parsed once per algorithm class.

    def change(config: TrainConfig) -> TrainConfig:
        for key, text in changes.items():
            at = (type(config.algo), key)
            if at not in result:
                result[at] = parsed(config, key, text)
            config = with_setting(config, *result[at])
        return config

    return grid.changed(change)


FEW_STEPS = 100  # A smaller evaluation would take longer than its steps suggest, because its episodes are completed.
MOST_EVALUATIONS = 10
PERIODS = 20  # Least number of periods of a concurrent run, and of target intervals on a Gorila cluster.


def full_name(config: TrainConfig, key: str) -> str:
    """Return a setting's full name, such as env.game for game. An unknown setting raises a ConfigError with similar
    names."""
    try:
        return flags.full_name(config, key)
    except ConfigError as e:
        raise ConfigError(f"key {key!r} of the grid: {e}") from e


def parsed(config: TrainConfig, key: str, text: str) -> tuple[str, Any]:
    """Parse a setting as on the command line, and return (full name, value). ConfigError."""
    name = full_name(config, key.replace("_", "-"))
    if text in ("True", "False"):
        head, _, tail = name.rpartition(".")
        flag = f"{head}.{'' if text == 'True' else 'no-'}{tail}" if head else ("" if text == "True" else "no-") + tail
        words = ["--" + flag]
    else:
        words = ["--" + name, *text.split()]
    from accel_rl.config.arguments import parse  # The parser needs tyro, which the experiments themselves do not need.

    value: Any = parse(TrainConfig, words, "accel-rl sweep", "", config)
    for part in name.split("."):
        value = getattr(value, part)
    return name, value


def scaled(config: TrainConfig, scale: float) -> TrainConfig:
    """Return the same experiment `scale` times as long, for a small machine.

    The length of the run, the interval and length of evaluations, the capacity of a replay and the decay of epsilon
    are scaled. Networks, batch sizes, learning rates and target intervals stay, with these exceptions:
    - A run on a Gorila cluster has at least PERIODS target intervals. Its numbers of bundles and shards stay.
    - A concurrent run has at least PERIODS periods: within a single period it would learn nothing.
    - A replay keeps room for two batches and a rollout.
    - Evaluations of fewer than FEW_STEPS steps, or of a number of episodes, happen at most MOST_EVALUATIONS times: they
      play complete episodes, and would take longer than the training between them.
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
        config = replace(config, algo=algo)  # The horizon follows from the period.
    if isinstance(algo, DQNConfig):
        ranks = config.distributed.size  # Each rank has a part of the replay.
        rollout = (config.T + algo.n_step + 8) * config.rank_envs
        size = max(share(algo.replay.size), 2 * algo.batch_size * ranks, rollout * ranks)
        replay = replace(algo.replay, size=size, start=share(algo.replay.start))
        algo = replace(algo, replay=replay, epsilon_steps=share(algo.epsilon_steps))
    gorila = config.gorila
    if gorila.updates:
        gorila = replace(gorila, updates=share(gorila.updates))
    if config.cluster == "gorila" and isinstance(algo, DQNConfig):
        updates = gorila.updates or round(env_steps * algo.intensity / algo.batch_size)
        algo = replace(algo, target_interval=min(algo.target_interval, max(1, updates // PERIODS)))
    return replace(
        config,
        algo=algo,
        gorila=gorila,
        env_steps=env_steps,
        evaluation=replace(evaluation, interval=interval, steps=steps),
    )


def pairs(flag: str, words: Sequence[str]) -> dict[str, str]:
    """Read KEY=VALUE words. ConfigError."""
    result = {}
    for word in words:
        key, equals, value = word.partition("=")
        if not (key and equals and value):
            raise ConfigError(f"{flag} {word}: wanted KEY=VALUE")
        if key in result:
            raise ConfigError(f"{flag} {word}: {key} is given twice")
        result[key] = value
    return result


def prepared(grid: Grid, scale: float, override: Sequence[str]) -> Grid:
    """Scale the runs, apply the settings of --override, and check them. ConfigError."""
    if not 0 < scale <= 1:
        raise ConfigError(f"--scale {scale}: must be above 0 and at most 1")
    if scale != 1:
        grid = grid.changed(lambda config: scaled(config, scale))
    grid = overridden(grid, pairs("--override", override))
    for member in grid.members:
        try:
            # Warnings about shared cores do not apply, because the slot determines the cores.
            with warnings.catch_warnings(action="ignore"):
                RankPlan.resolve(resolve(member.config), device="cpu")
        except ConfigError as e:
            raise ConfigError(f"run {member.name}: {e}") from e
    return grid
