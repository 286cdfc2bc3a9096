"""Resolved settings contain a value for every setting whose default depends on other settings.

    config = resolve(config)        called once, when a run begins: checks the settings, and fills in defaults
    config.spec                     describes the environment for the network, the replay and the plan

The device, worker processes and threads are chosen later, by the `RunPlan` of the machine that executes the run.
"""

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, fields, replace
from importlib import import_module
from pathlib import Path
from typing import Any

from accel_rl.data.spec import EnvSpec
from accel_rl.envs.make import ResolvedEnv, make_spec, resolve_env
from accel_rl.envs.start_points import load_starts
from accel_rl.models.networks import SMALL, fits
from accel_rl.settings.registry import SUITE_PREFIX, find_algorithm
from accel_rl.settings.sampler_config import SamplerConfig
from accel_rl.settings.train import OF_RANK, TrainConfig
from accel_rl.text.counts import counted
from accel_rl.text.errors import ConfigError

Test = Callable[[TrainConfig], bool]

CHECKS: tuple[tuple[Test, str], ...] = (
    (lambda c: c.schedule == "concurrent", "accel_rl.training.concurrent:check"),
    (lambda c: c.distributed.several, "accel_rl.planning.rank_config:check"),
    (lambda c: c.sampler.on_device, "accel_rl.samplers.device_engine:check"),
)
"""Pairs of (test whether a feature is chosen, such as --schedule concurrent; name of the function that checks its
settings)."""


def check_modes(config: TrainConfig) -> None:
    """Raise ConfigError, with a message of one line, for settings that the chosen mode or another chosen feature does
    not support."""
    chosen = [config.mode.check, *(name for is_chosen, name in CHECKS if is_chosen(config))]
    for name in filter(None, chosen):
        module, _, function = name.partition(":")
        getattr(import_module(module), function)(config)


@dataclass(frozen=True, kw_only=True)
class ResolvedSampler(SamplerConfig):
    """Settings of a sampler with a resolved horizon. Fields with the metadata OF_RANK are derived for each rank, and
    are not settings of the run."""

    horizon: int
    first_env: int = field(default=0, metadata={OF_RANK: True})
    """Index of this rank's first environment among the environments of all ranks and bundles."""
    run_envs: int = field(default=0, metadata={OF_RANK: True})
    """Number of environments of all ranks and bundles, or 0 for `envs`."""


@dataclass(frozen=True, kw_only=True)
class Resolved(TrainConfig):
    """Settings with a chosen horizon, backend and random numbers, and with absolute paths.

    All parts of a run receive resolved settings. Resolved settings come only from `resolve` and from a run's
    config.json.
    """

    env: ResolvedEnv
    sampler: ResolvedSampler

    def __post_init__(self) -> None:
        assert isinstance(self.env, ResolvedEnv) and isinstance(self.sampler, ResolvedSampler), "not resolved"

    def to_dict(self) -> dict[str, Any]:
        values = super().to_dict()
        for f in fields(self.sampler):
            if f.metadata.get(OF_RANK) and getattr(self.sampler, f.name) == f.default:
                del values["sampler"][f.name]
        return values

    def identity(self) -> dict[str, Any]:
        """The settings that a run never changes, as plain JSON. Each checkpoint records these settings."""
        sampler = {name: getattr(self.sampler, name) for name in ("envs", "horizon", "reset", "decorrelation_steps")}
        values = {"algorithm": self.algorithm, "env": self.env.to_dict(), "seed": self.seed}
        result: dict[str, Any] = json.loads(json.dumps(values | {"algo": asdict(self.algo), "sampler": sampler}))
        return result

    @property
    def spec(self) -> EnvSpec:
        """The spec of the training environment. The first call creates an environment. Raises ConfigError."""
        return make_spec(self.env, True, self.sampler.reset, self.sampler.spec_timeout_s)


def resolve(config: TrainConfig) -> Resolved:
    """Check settings, and compute those that follow from others. `resolve` makes all checks that do not require another
    process. Raises ConfigError, with a message of one line, for impossible settings."""
    config.check()
    resolved = fill_in(config)
    check_modes(resolved)
    resolved.algo.of_rank(resolved.distributed.size).check_sampling(resolved.T, resolved.rank_envs)
    resolved.env.check(resolved.sampler.spec_timeout_s)
    if resolved.rank_envs < (games := len(resolved.env.games)):
        got, least = counted(resolved.rank_envs, "environment"), resolved.sampler.envs // resolved.rank_envs * games
        each = " per rank" if resolved.distributed.several else ""
        are = "are" if resolved.rank_envs > 1 else "is"
        few = f"{got}{each} {are} too few for {games} games"
        raise ConfigError(f"--envs {resolved.sampler.envs}: {few}; use {least} or more")
    resolved = for_small_pictures(resolved)
    check_starts(resolved)
    if resolved.sampler.reset == "cached" and not resolved.env.game:
        raise ConfigError(
            f"--sampler.reset cached is for Atari games: {resolved.env.id} is none; use immediate, wait or swap"
        )
    if not isinstance(resolved.algo, needed := find_algorithm(resolved.algorithm).Config):
        raise ConfigError(
            f"algo is of {type(resolved.algo).__name__}, the settings of {resolved.algorithm} are {needed.__name__}: "
            f"begin from accel_rl.settings.train.default_config({resolved.algorithm!r})"
        )
    return resolved


def fill_in(config: TrainConfig) -> Resolved:
    """Compute the settings that follow from others, without checking combinations. Raises ConfigError."""
    randomness = "counter" if config.sampler.on_device and config.env.game else "sequence"
    chosen: dict[str, Any] = {
        "env": resolve_env(config.env, randomness),
        "algo": config.algo.for_env(bool(config.env.game)).for_run(config.env_steps),
        "sampler": ResolvedSampler(**_values(config.sampler) | {"horizon": config.T}),
        "evaluation": replace(config.evaluation, starts_file=_absolute(config.evaluation.starts_file)),
        "init": _absolute(config.init),
    }
    return Resolved(**_values(config) | chosen)


def _absolute(path: str) -> str:
    """The absolute path, because other processes may have another current folder. The name of an agent of the suite is
    not changed."""
    if not path or (path.startswith(SUITE_PREFIX) and not Path(path).exists()):
        return path
    return str(Path(path).expanduser().absolute())


def for_small_pictures(config: Resolved) -> Resolved:
    """The settings with the network of MinAtar's paper, if the pictures are too small for the algorithm's default
    network and the user has not chosen another network."""
    network, picture = getattr(config.algo, "network", None), config.spec.picture
    default = getattr(find_algorithm(config.algorithm).Config(), "network", None)
    if network is None or network != default or not picture or fits(network, *picture.frame_shape[-2:]):
        return config
    return replace(config, algo=replace(config.algo, network=SMALL))  # type: ignore[call-arg]


def check_starts(config: Resolved) -> None:
    """Raise ConfigError if evaluations cannot begin at the start points of --evaluation.starts-file."""
    if config.evaluation.starts == "noop":
        return
    if not config.env.game:
        raise ConfigError(f"--evaluation.starts saved is for Atari games: {config.env.id} is none")
    if len(config.env.games) > 1:
        raise ConfigError(f"--evaluation.starts saved: start points are of a single game, not of {config.env.game}")
    if config.sampler.on_device:
        raise ConfigError("--sampler.engine device: --evaluation.starts saved needs workers or in-process")
    try:
        points = load_starts(Path(config.evaluation.starts_file))
        points.check(config.env.game, config.env.rules(), config.evaluation_limit)
    except ConfigError as e:
        raise ConfigError(f"--evaluation.starts-file: {e}") from e


def _values(part: Any) -> dict[str, Any]:
    return {f.name: getattr(part, f.name) for f in fields(part)}
