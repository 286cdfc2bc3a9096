"""The settings of a run are a frozen dataclass, from which the command line and config.json are derived."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, is_dataclass
from pathlib import Path
from typing import Any, Literal, Self, get_type_hints

from accel_rl.algos.algorithm import AlgorithmConfig
from accel_rl.algos.replay_algorithm import ReplayAlgorithmConfig
from accel_rl.distributed.distributed_config import DistributedConfig
from accel_rl.envs.make import EnvConfig
from accel_rl.models.precision import Precision
from accel_rl.settings.config_file import FORMAT, read_file, settings_in
from accel_rl.settings.doors import check_doors
from accel_rl.settings.gorila_settings import GorilaConfig
from accel_rl.settings.modes import ALONE, CLUSTERS, RANKS, Mode
from accel_rl.settings.outputs import CheckpointConfig, EvaluationConfig, LogConfig
from accel_rl.settings.registry import ALGORITHMS, NAMES_WITH_REPLAY, check_call, find, find_algorithm
from accel_rl.settings.sampler_config import SamplerConfig
from accel_rl.settings.types import check_types
from accel_rl.text.bounds import NonNegative, NonNegativeCount, PositiveCount
from accel_rl.text.errors import ConfigError, nearest
from accel_rl.text.notes import say_once

OF_RANK = "of rank"
"""Metadata of fields that exist only in a rank's settings, not in config.json."""


@dataclass(frozen=True)
class SecondaryConfig:
    """A second learner, for Q-learning, which never acts. The second learner starts with the first learner's
    parameters, and learns from the same replay at the same training intensity (Stooke & Abbeel, section 5.4.2)."""

    batch: NonNegativeCount = 0
    """Batch size of the second learner, in transitions. With 0, the run has no second learner."""
    rate: NonNegative = 0.0
    """Learning rate of the second learner, or 0 for the first learner's rate."""

    def check(self, algo: AlgorithmConfig) -> None:
        if self.batch and not isinstance(algo, ReplayAlgorithmConfig):
            raise ConfigError(f"--secondary.batch {self.batch}: only {NAMES_WITH_REPLAY} have a replay to share")


@dataclass(frozen=True)
class TrainConfig:
    """The settings of one training run."""

    algorithm: str = field(default="a2c", metadata={"hidden": True})
    env: EnvConfig = field(default_factory=EnvConfig)
    algo: AlgorithmConfig = field(default_factory=AlgorithmConfig)
    sampler: SamplerConfig = field(default_factory=SamplerConfig)
    evaluation: EvaluationConfig = field(default_factory=EvaluationConfig)
    checkpoint: CheckpointConfig = field(default_factory=CheckpointConfig)
    log: LogConfig = field(default_factory=LogConfig)
    secondary: SecondaryConfig = field(default_factory=SecondaryConfig)
    distributed: DistributedConfig = field(default_factory=DistributedConfig)
    gorila: GorilaConfig = field(default_factory=GorilaConfig)
    preset: str = ""
    """Preset with the defaults of another project or paper for its algorithms: cleanrl, sb3, dopamine, stooke2018,
    mnih2015, vanhasselt2019, pqn2024 or hadamax2025. Other options override the preset's values. Without a preset, this
    project's own defaults apply."""
    env_steps: PositiveCount = 1_500_000
    """Length of the run in env steps. An env step is an agent step, with 4 emulated frames in Atari."""
    seed: NonNegativeCount = 0
    """Seed of all random numbers of the run."""
    run_dir: str = ""
    """Folder that the run creates, by default runs/ALGORITHM-ENVIRONMENT-seedN-TIME."""
    init: str = ""
    """Network with which training begins: the folder of a run (its newest checkpoint), of a checkpoint or of an
    exported model, or an agent of the suite, such as suite/pqn-breakout. Parameters and buffers are copied by name. A
    layer whose shape differs, such as the head if the game has another number of actions, keeps its initial values."""
    init_only: str = ""
    """Module of the network that --init copies, such as `body`. By default, all layers that fit are copied."""
    schedule_steps: PositiveCount | None = None
    """Env step at which linear schedules, such as --algo.learning-rate-schedule linear, reach their end. By default
    linear schedules end with the run."""
    schedule: str = "lockstep"
    """Schedule of sampling and learning. With `lockstep`, sampling and learning alternate. With `concurrent` (for
    Q-learning), sampling and learning run in parallel. In a concurrent run, the target network acts while the learner
    trains on the replay, which changes only every --algo.target-interval env steps (Daley & Amato 2021). `module:Class`
    is a user's schedule."""
    cluster: Literal["none", "gorila", "ray"] = "none"
    """Cluster on which the run trains. With `gorila`, Ray starts bundles and a sharded parameter server (Nair et al.
    2015). The optimizer of Nair et al. 2015 is --optimizer adagrad, whose learning rate was not searched (a small run
    with 0.003 did not learn Pong). With `ray`, Ray starts the ranks of --ranks on the machines of its cluster. With
    `none` the run uses only this machine, without Ray."""
    address: str = ""
    """Address of a running Ray cluster, HOST:PORT or auto. By default, Ray is started on this machine for the run."""
    device: str = "auto"
    """Device of the learner and of inference: auto, cpu, cuda or cuda:N."""
    precision: Precision = "float32"
    """Precision of matrix products and convolutions in training. Training in `tfloat32` is faster on GPUs, and in
    `bfloat16` on GPUs and on CPUs with AMX, but only `float32` reproduces the papers' numbers. Parameters, sums, losses
    and evaluations are always float32."""
    capture_updates: bool = True
    """On a GPU, replay updates as CUDA graphs, if the algorithm and all modules of its network support graphs. If
    updates are not captured, events.log contains the reason."""
    torch_threads: PositiveCount | None = None
    """Number of threads per torch operation. The default number of threads is one per usable core on a CPU, and one
    with a GPU."""
    max_skipped_updates: PositiveCount = 20
    """End the run after this many consecutive updates with a non-finite loss or gradient. Each update with a non-finite
    loss or gradient is skipped and counted."""
    strict: bool = False
    """End the run (exit code 1) if a worker process dies, instead of replacing the worker."""
    callback: tuple[str, ...] = field(default=(), metadata={"appended": True})
    """Callback of the run, a subclass of accel_rl.Callback; may be repeated. A callback is `module:Class`, or
    `module:Class(name=value)`. The built-in callbacks are `StopAtScore(score=18)`, SaveBest,
    `VideoEvery(env_steps=100_000)` and WandbArtifacts."""
    sink: tuple[str, ...] = field(default=(), metadata={"appended": True})
    """Further destination of metrics and events, a subclass of accel_rl.Sink; may be repeated. The syntax is that of
    --callback."""
    wandb: Literal["disabled", "offline", "online"] = "disabled"
    """Mode of Weights & Biases."""
    wandb_project: str = "accel_rl"
    """Weights & Biases project of the run."""

    def check(self) -> None:
        """Raise ConfigError, with a message of one line, for a value that is impossible regardless of the other
        settings. `resolve` checks combinations of settings."""
        check_types(self)
        check_doors(self.sampler.engine, self.distributed.update, self.schedule)
        for part in (self.sampler, self.evaluation, self.algo, self.gorila):
            part.check()
        self.secondary.check(self.algo)
        if self.address and not self.mode.over_ray:
            raise ConfigError(f"--address {self.address}: only with --cluster gorila or ray")
        self.distributed.check()

    def progress(self, env_steps: int) -> float:
        """The fraction of the linear schedules, from 0 to 1, that is completed after `env_steps` env steps."""
        return min(1.0, env_steps / (self.schedule_steps or self.env_steps))

    @property
    def mode(self) -> Mode:
        return CLUSTERS.get(self.cluster) or (RANKS if self.distributed.several else ALONE)

    @property
    def updates(self) -> int | None:
        """Number of updates after which the run ends, or None if it ends after `env_steps`."""
        return self.gorila.updates if self.mode.has_members else None

    @property
    def rank_envs(self) -> int:
        """Number of environments B of one rank."""
        return self.sampler.envs // (self.distributed.size if not self.distributed.is_async else 1)

    @property
    def window(self) -> int:
        """Number of recent episodes, of all games and ranks, over which the online score averages."""
        return self.log.window * max(1, len(self.env.games))

    @property
    def evaluation_limit(self) -> int:
        """Time limit of an evaluation episode, in agent steps. The protocol's time limit (5 minutes for mnih2015) does
        not apply to episodes from saved start points (Nair et al. 2015, section 5.2)."""
        of_env = self.env.max_evaluation_steps
        if of_env is None and self.env.game and self.evaluation.starts == "noop":
            of_env = self.env.rules().max_evaluation_steps
        return min(of_env or self.evaluation.max_episode_steps, self.evaluation.max_episode_steps)

    @property
    def period(self) -> int:
        """Env steps between two synchronizations of sampling and learning in the concurrent schedule."""
        assert isinstance(self.algo, ReplayAlgorithmConfig)
        return self.algo.target_interval

    @property
    def rank_period(self) -> int:
        """The concurrent schedule's period, in env steps of one rank. Synchronous ranks divide a period's env steps
        among themselves."""
        return self.period // (self.distributed.size if not self.distributed.is_async else 1)

    @property
    def T(self) -> int:
        """The resolved horizon. With --schedule concurrent, the default horizon is the largest T up to 32 for which a
        period consists of whole rollouts."""
        if self.sampler.horizon:
            return self.sampler.horizon
        B = self.sampler.envs
        if self.schedule == "concurrent" and isinstance(self.algo, ReplayAlgorithmConfig):
            return next((T for T in range(32, 0, -1) if self.period % (T * B) == 0), 1)
        return self.algo.horizon(B)

    def to_dict(self) -> dict[str, Any]:
        """The settings as plain JSON, with the format version of config.json."""
        return {"format": FORMAT, **asdict(self)}

    @classmethod
    def from_dict(cls, d: Mapping[str, Any]) -> Self:
        """The settings of a config.json. Raises ConfigError, with a message of one line, for an unknown field. Missing
        settings get their defaults, and a message is logged."""
        values = settings_in(d)
        algo, missing = find_algorithm(values.get("algorithm", "a2c")).Config, list[str]()
        values["algo"] = _build(algo, values.get("algo", {}), missing, "algo.")
        config: Self = _build(cls, values, missing)
        if missing:
            say_once(f"config.json has no {', '.join(missing)}: defaults of this version are used")
        check_types(config)
        return config

    def log_interval(self) -> int:
        """Env steps between rows of metrics."""
        return self.log.interval or min(max(self.env_steps // 100, 1_000), 50_000)


def default_config(name: str) -> TrainConfig:
    """The default settings, with the environments and horizon of the algorithm's paper. `name` is `a2c`,
    `module:Class`, or `module:function` of a function that returns settings (an experiment). Raises ConfigError."""
    result = find(name)
    if not isinstance(result, type) and callable(result):
        check_call(name, result)
        config = result()
        if not isinstance(config, TrainConfig):
            raise ConfigError(f"experiment {name!r}: it returns {type(config).__name__}, not a TrainConfig")
        return config
    cls = find_algorithm(name)
    sampler = SamplerConfig(envs=cls.sampling["envs"], horizon=cls.sampling["horizon"])
    return TrainConfig(algorithm=name, algo=cls.Config(), sampler=sampler)


def read_settings(folder: Path) -> dict[str, Any]:
    """The settings of a config.json as plain JSON, without importing a user's algorithm. Raises ConfigError, with a
    message of one line, for an unknown field. Fields of a user's algorithm are not checked."""
    values = read_file(folder)
    try:
        result = settings_in(values)
        if result.get("algorithm") in ALGORITHMS:
            TrainConfig.from_dict(values)
        else:
            check_types(_build(TrainConfig, {**result, "algo": AlgorithmConfig()}, []))
    except ConfigError as e:
        raise ConfigError(f"{folder / 'config.json'}: {e}") from e
    return result


def _build(cls: Any, values: dict[str, Any], missing: list[str], prefix: str = "") -> Any:
    """Build settings from plain JSON. Names of missing settings are appended to `missing`."""
    names = [f.name for f in fields(cls)]
    hints = get_type_hints(cls)
    built = {}
    for key, value in values.items():
        if key not in names:
            raise ConfigError(f"unknown field {prefix}{key}" + nearest(key, names))
        if isinstance(value, dict) and is_dataclass(hints[key]):
            value = _build(hints[key], value, missing, f"{prefix}{key}.")
        built[key] = tuple(value) if isinstance(value, list) else value  # JSON has no tuples, so lists become tuples.
    missing += [prefix + f.name for f in fields(cls) if f.name not in built and not f.metadata.get(OF_RANK)]
    return cls(**built)
