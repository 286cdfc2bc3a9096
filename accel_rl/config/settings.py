"""The settings of a run: one frozen dataclass, the same in Python, on the command line and in config.json."""

import importlib
import os
import sys
from dataclasses import asdict, dataclass, field, fields, is_dataclass, replace
from typing import Any, Literal, get_type_hints

import tyro

from accel_rl.algos.base import Algorithm, AlgorithmConfig
from accel_rl.distributed.settings import DistributedConfig
from accel_rl.envs.make import UNNAMED, EnvConfig
from accel_rl.models.precision import Precision
from accel_rl.optim.factory import is_adam
from accel_rl.system.counts import Count, OptionalCount
from accel_rl.system.errors import ConfigError, nearest

ALGORITHMS = {
    "a2c": "accel_rl.algos.a2c:A2C",
    "ppo": "accel_rl.algos.ppo:PPO",
    "impala": "accel_rl.algos.impala:IMPALA",
    "dqn": "accel_rl.algos.dqn:DQN",
    "c51": "accel_rl.algos.c51:C51",
    "rainbow": "accel_rl.algos.rainbow:Rainbow",
}


@dataclass(frozen=True)
class SamplerConfig:
    """Who steps the environments, how many, and for how long between updates."""

    envs: Count = 16
    """B, environments in all (with --update async: of each rank); divides by ranks x groups x workers."""
    horizon: OptionalCount = None
    """T, agent steps that each environment takes between optimisations. Default: as the algorithm's batch asks."""
    groups: OptionalCount = None
    """Alternating groups: one is inferred for while the other steps (Stooke & Abbeel section 4.1: 2). Default: 2. Where
    the emulator plays on the cores that infer, alternating hides nothing: there each group has half of the workers and
    a server thread on their cores, and below 4 environments each, or with an odd number of workers, there is one."""
    inference_per_worker: bool = False
    """Each worker is a group by itself, inferred for in order of arrival; `groups` does not count (Daley & Amato 2021,
    section 4: what synchronized execution, --sampler.groups 1, is faster than)."""
    workers: OptionalCount = None
    """Worker processes, of each rank. Default: one per usable core, as far as envs divide."""
    cores: tuple[int, ...] | None = None
    """Cores to use, such as 0 1 2. Default: those that the affinity mask and the cgroup grant."""
    reset: Literal["immediate", "wait", "swap", "cached"] = "immediate"
    """When an ended episode is reset (section 4.1): at once; in the optimisation pause, skipped until then (wait);
    in the pause, a reserve plays on at once (swap; twice the emulators); never, a stored start is restored (cached)."""
    decorrelation_steps: Count = 300
    """Each environment starts with up to this many uniform-random actions (section 5.3, start state decorrelation)."""
    engine: Literal["workers", "in-process"] = "workers"
    """Worker processes, or everything serially in this one (debugging; the rollouts are the same)."""
    capture: bool = True
    """Capture inference once and replay it without Python (CPU) or as a CUDA graph (GPU), where the agent and all its
    modules are unmodified built-ins. events.log says when it is not captured, and why."""
    timeout_s: float = 60.0
    """A worker that owes an answer for longer counts as hung and is replaced, seconds."""

    def check(self) -> None:
        for name in ("envs", "horizon", "groups", "workers"):
            if (value := getattr(self, name)) is not None and value < 1:
                raise ConfigError(f"--sampler.{name} {value}: must be at least 1")
        if self.decorrelation_steps < 0:
            raise ConfigError(f"--sampler.decorrelation-steps {self.decorrelation_steps}: must be 0 or more")
        if not self.timeout_s > 0:
            raise ConfigError(f"--sampler.timeout-s {self.timeout_s}: must be above 0")


@dataclass(frozen=True)
class EvaluationConfig:
    """Scores on separate environments, without life-loss ends. Every episode that is begun is finished and counted, so
    short episodes are not favoured."""

    interval: Count = 1_000_000
    """Env steps of training between evaluations; the end of the run always is (section 5.3: 1 M). 0: never."""
    steps: Count = 125_000
    """Env steps of one evaluation; no episode is begun after (section 5.3: 125,000). Short runs take an eighth of what
    they trained since the last."""
    episodes: Count = 0
    """Play exactly this many episodes instead (0: by steps)."""
    max_episode_steps: Count = 27_000
    """Longest evaluation episode in env steps (section 5.3: 27,000); the protocol may say less."""
    parallel: Count = 16
    """Environments that play side by side."""
    greedy: bool = False
    """Act greedily instead of sampling from the policy."""

    def check(self) -> None:
        for name in ("interval", "steps", "episodes"):
            if getattr(self, name) < 0:
                raise ConfigError(f"--evaluation.{name} {getattr(self, name)}: must be 0 or more")
        for name in ("max_episode_steps", "parallel"):
            if getattr(self, name) < 1:
                raise ConfigError(f"--evaluation.{name.replace('_', '-')} {getattr(self, name)}: must be at least 1")


@dataclass(frozen=True)
class CheckpointConfig:
    """Everything needed to go on bit for bit, written atomically and verified when read."""

    interval: OptionalCount = None
    """Env steps between checkpoints. Default: a twentieth of the run, 5,000 to 100,000. 0: only at the end."""
    keep: Count = 3
    """How many of the newest are kept."""

    def check(self) -> None:
        if self.interval is not None and self.interval < 0:
            raise ConfigError(f"--checkpoint.interval {self.interval}: must be 0 or more")
        if self.keep < 1:
            raise ConfigError(f"--checkpoint.keep {self.keep}: must be at least 1")


@dataclass(frozen=True)
class LogConfig:
    """What is reported, where, how often."""

    interval: OptionalCount = None
    """Env steps between rows of metrics.csv. Default: a hundredth of the run, 1,000 to 50,000."""
    window: Count = 100
    """Finished episodes that the online score averages over (section 5.3: 100); of several ranks: in all."""
    norms: bool = False
    """Also report the L2 norms of each layer's parameters, gradients and steps (Stooke & Abbeel, appendix C)."""
    tensorboard: bool = False
    """Also write TensorBoard events into the run folder (needs the extra: tensorboard)."""

    def check(self) -> None:
        if self.interval is not None and self.interval < 1:
            raise ConfigError(f"--log.interval {self.interval}: must be at least 1")
        if self.window < 1:
            raise ConfigError(f"--log.window {self.window}: must be at least 1")


@dataclass(frozen=True)
class SecondaryConfig:
    """A second learner that never plays: it starts from the first one's parameters and learns from its replay, at the
    same rate of data (Stooke & Abbeel, section 5.4.2). Q-learning alone."""

    batch: Count = 0
    """Transitions of one of its updates; 0: there is no second learner."""
    rate: float = 0.0
    """Its step size; 0: the first one's."""

    def check(self, algo: AlgorithmConfig) -> None:
        if self.batch < 0:
            raise ConfigError(f"--secondary.batch {self.batch}: must be 0 or more")
        if not 0 <= self.rate < float("inf"):
            raise ConfigError(f"--secondary.rate {self.rate}: must be 0 or more")
        if self.batch and not hasattr(algo, "replay"):
            raise ConfigError(f"--secondary.batch {self.batch}: only dqn, c51 and rainbow have a replay to share")


@dataclass(frozen=True)
class TrainConfig:
    """One training run."""

    algorithm: tyro.conf.Suppress[str] = "a2c"
    env: EnvConfig = field(default_factory=EnvConfig)
    algo: AlgorithmConfig = field(default_factory=AlgorithmConfig)
    sampler: SamplerConfig = field(default_factory=SamplerConfig)
    evaluation: EvaluationConfig = field(default_factory=EvaluationConfig)
    checkpoint: CheckpointConfig = field(default_factory=CheckpointConfig)
    log: LogConfig = field(default_factory=LogConfig)
    secondary: SecondaryConfig = field(default_factory=SecondaryConfig)
    distributed: DistributedConfig = field(default_factory=DistributedConfig)
    env_steps: Count = 1_500_000
    """Length of the run in env steps (agent steps; 4 emulated frames each in Atari)."""
    seed: Count = 0
    """Everything random in the run follows from it."""
    run_dir: str = ""
    """Folder of the run, created. Default: runs/ALGORITHM-ENVIRONMENT-seedN-TIME."""
    schedule: Literal["lockstep", "concurrent"] = "lockstep"
    """Sample and learn in turns, or at the same time: the target network plays while the replay, which does not change
    meanwhile, is learned from; they meet every --algo.target-interval env steps (Daley & Amato 2021). Q-learning
    alone."""
    device: str = "auto"
    """auto, cpu, cuda or cuda:N."""
    precision: Precision = "float32"
    """Of products in the network while it learns and plays to learn. bfloat16: faster where the CPU (AMX, AVX512-BF16)
    or the GPU has it, and no longer the papers' numbers; parameters, sums, heads, losses and evaluations stay
    float32."""
    torch_threads: OptionalCount = None
    """Threads of one torch operation. Default: one per usable core on a CPU, one beside a GPU."""
    max_skipped_updates: Count = 20
    """So many updates in a row whose loss or gradient is not finite (each is skipped and counted) end the run."""
    strict: bool = False
    """A worker that dies ends the run (exit code 1) instead of being replaced."""
    wandb: Literal["disabled", "offline", "online"] = "disabled"
    """Weights & Biases. Never fatal: a service that does not answer is reported once and left out."""
    wandb_project: str = "accel_rl"
    """Project that the run is filed under."""

    def check(self) -> None:
        """ConfigError, one line, for anything impossible that can be known before a process starts."""
        if self.env_steps < 1:
            raise ConfigError(f"--env-steps {self.env_steps}: must be at least 1")
        if self.seed < 0:
            raise ConfigError(f"--seed {self.seed}: must be 0 or more")
        if self.max_skipped_updates < 1:
            raise ConfigError(f"--max-skipped-updates {self.max_skipped_updates}: must be at least 1")
        if self.torch_threads is not None and self.torch_threads < 1:
            raise ConfigError(f"--torch-threads {self.torch_threads}: must be at least 1")
        for part in (self.sampler, self.evaluation, self.checkpoint, self.log, self.algo):
            part.check()
        self.secondary.check(self.algo)
        self._check_schedule()
        self._check_group()
        self.algo.of_rank(self.distributed.size).check_sampling(self.T, self.rank_envs)
        self.env.check()
        if self.sampler.reset == "cached" and not self.env.game:
            raise ConfigError(
                f"--sampler.reset cached is for Atari games: {self.env.id} is none; use immediate, wait or swap"
            )

    def _check_schedule(self) -> None:
        if self.schedule == "lockstep":
            return
        if not hasattr(self.algo, "replay"):
            raise ConfigError(
                f"--schedule {self.schedule}: only dqn, c51 and rainbow have a replay and a target network"
            )
        each = self.T * self.sampler.envs
        if self.period % each:
            raise ConfigError(
                f"--algo.target-interval {self.period}: must divide by {self.sampler.envs} environments x {self.T} "
                f"steps with --schedule concurrent; use {max(1, round(self.period / each)) * each}"
            )

    def _check_group(self) -> None:
        g, ranks = self.distributed, self.distributed.size
        g.check()
        if not g.several:
            return
        if self.schedule != "lockstep" or self.secondary.batch:
            what = "--secondary.batch" if self.secondary.batch else f"--schedule {self.schedule}"
            raise ConfigError(f"{what} is for one rank; got --ranks {ranks} --update {g.update}")
        if g.local_updates > 1 and not is_adam(optimizer := getattr(self.algo, "optimizer", "adam")):
            raise ConfigError(
                f"--distributed.local-updates {g.local_updates}: needs --algo.optimizer adam, not {optimizer}"
            )
        if g.update == "async":
            return
        for flag, n in (("--envs", self.sampler.envs), ("--batch-size", getattr(self.algo, "batch_size", ranks))):
            if n % ranks:
                raise ConfigError(f"{flag} {n}: must divide by {ranks} ranks; use {-(-n // ranks) * ranks}")

    @property
    def rank_envs(self) -> int:
        """B of one rank."""
        return self.sampler.envs // (self.distributed.size if self.distributed.update == "all-reduce" else 1)

    @property
    def period(self) -> int:
        """Env steps between two meetings of sampling and learning, in the concurrent schedule."""
        return int(self.algo.target_interval)  # type: ignore[attr-defined]

    @property
    def T(self) -> int:
        """The horizon, resolved. Where learning does not wait for it, as long as divides the period, up to 32."""
        if self.sampler.horizon:
            return self.sampler.horizon
        B = self.sampler.envs
        if self.schedule == "concurrent":
            return next((T for T in range(32, 0, -1) if self.period % (T * B) == 0), 1)
        return self.algo.horizon(B)

    def resolved(self) -> "TrainConfig":
        """As a run is begun: with the horizon and the backend that the defaults stand for. ConfigError."""
        return replace(self, sampler=replace(self.sampler, horizon=self.T), env=self.env.resolved())

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_dict(cls, d: dict[str, Any]) -> "TrainConfig":
        """From config.json. ConfigError for a field that does not exist."""
        d = dict(d)
        algo = find_algorithm(d.get("algorithm", "a2c")).Config
        d["algo"] = _build(algo, d.get("algo", {}), "algo.")
        if d.get("env", {}).get("game"):
            d["env"] = {**UNNAMED, **d["env"]}
        return _build(cls, d)

    def checkpoint_interval(self) -> int:
        """Env steps, resolved; 0: at the end alone."""
        if self.checkpoint.interval is not None:
            return self.checkpoint.interval
        return min(max(self.env_steps // 20, 5_000), 100_000)

    def log_interval(self) -> int:
        """Env steps, resolved."""
        return self.log.interval or min(max(self.env_steps // 100, 1_000), 50_000)


def _build(cls: Any, values: dict[str, Any], prefix: str = "") -> Any:
    names = [f.name for f in fields(cls)]
    hints = get_type_hints(cls)
    built = {}
    for key, value in values.items():
        if key not in names:
            raise ConfigError(f"unknown field {prefix}{key}" + nearest(key, names))
        if isinstance(value, dict) and is_dataclass(hints[key]):
            value = _build(hints[key], value, f"{prefix}{key}.")
        built[key] = tuple(value) if isinstance(value, list) else value  # JSON knows no tuples
    return cls(**built)


def find_algorithm(name: str) -> type[Algorithm]:
    """`a2c`, or `module:Class` of the user's own (the current folder is searched too). ConfigError."""
    found = find(name)
    if not (isinstance(found, type) and issubclass(found, Algorithm)):
        raise ConfigError(f"algorithm {name!r}: it is not a subclass of accel_rl.algos.base.Algorithm")
    return found


def default_config(name: str) -> TrainConfig:
    """The defaults of an algorithm (its paper's environments and horizon), or what the function `module:function`
    returns (an experiment). ConfigError."""
    found = find(name)
    if not isinstance(found, type) and callable(found):
        config = found()
        if not isinstance(config, TrainConfig):
            raise ConfigError(f"experiment {name!r}: it returns {type(config).__name__}, not a TrainConfig")
        return config
    cls = find_algorithm(name)
    sampler = SamplerConfig(envs=cls.sampling["envs"], horizon=cls.sampling["horizon"])
    return TrainConfig(algorithm=name, algo=cls.Config(), sampler=sampler)


def find(name: str) -> Any:
    """What `a2c` or `module:attribute` names (the current folder is searched too). ConfigError."""
    path = ALGORITHMS.get(name, name)
    module_name, colon, attribute = path.partition(":")
    if not colon:
        known = [*ALGORITHMS, "module:Class", "module:function"]
        raise ConfigError(f"unknown algorithm {name!r}; allowed: {', '.join(known)}{nearest(name, ALGORITHMS)}")
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    try:
        module = importlib.import_module(module_name)
    except ModuleNotFoundError as e:
        if e.name is not None and (module_name == e.name or module_name.startswith(e.name + ".")):
            raise ConfigError(f"algorithm {name!r}: there is no module {e.name!r} on the path") from e
        raise
    found = getattr(module, attribute, None)
    if found is None:
        raise ConfigError(f"algorithm {name!r}: {module_name} has no {attribute}{nearest(attribute, dir(module))}")
    return found
