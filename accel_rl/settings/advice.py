"""Warnings about settings that have no effect, and about runs that make no updates."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from accel_rl.algos.replay_algorithm import ReplayAlgorithmConfig
from accel_rl.envs.protocols import OVERRIDES
from accel_rl.models.convolution import ConvNet
from accel_rl.models.networks import find_network
from accel_rl.models.precision import gains_from_bfloat16
from accel_rl.settings.reads import unread
from accel_rl.settings.registry import find_algorithm
from accel_rl.settings.resolved import Resolved
from accel_rl.settings.train import TrainConfig, default_config
from accel_rl.settings.types import values_in

Test = Callable[[Resolved], bool]


@dataclass(frozen=True)
class Condition:
    """Some settings have an effect only if `holds(config)` is true. A condition lists the full names of settings, and
    the names of groups of settings, which end with a point. The method `inactive` of an algorithm's Config names the
    settings that have no effect because of other settings of the algorithm."""

    names: tuple[str, ...]
    holds: Test
    needs: str

    def covers(self, name: str) -> bool:
        return name in self.names or name.startswith(tuple(n for n in self.names if n.endswith(".")))


def _async(config: Resolved) -> bool:
    return config.distributed.is_async


def _network(config: Resolved) -> type[Any]:
    return find_network(config.algo.network)  # type: ignore[attr-defined]


def _is_users(config: Resolved) -> bool:
    """Whether the network is a user's module for observations of any kind, instead of a ConvNet for pictures."""
    return not issubclass(_network(config), ConvNet)


# Atari settings that also affect Gymnasium environments
ANYWHERE = ("stack", "max_episode_steps", "max_evaluation_steps")
CONDITIONS = (
    Condition(
        (
            "env.protocol",
            "env.backend",
            "env.randomness",
            "env.translate",
            *(f"env.{name}" for name in OVERRIDES if name not in ANYWHERE),
        ),
        lambda c: bool(c.env.game),
        "an Atari game (--game)",
    ),
    Condition(
        ("env.kwargs", "env.restore", "env.action_mask"), lambda c: bool(c.env.id), "a Gymnasium environment (--env)"
    ),
    Condition(("env.stack",), lambda c: c.spec.is_image, "picture observations"),
    Condition(("algo.network",), lambda c: bool(c.spec.picture) or _is_users(c), "picture observations"),
    Condition(("algo.normalize",), lambda c: c.spec.picture is None, "vector observations"),
    Condition(
        ("algo.layer_norm",),
        lambda c: not (c.spec.picture and getattr(_network(c), "has_own_norms", False)),
        "a network without layer norms of its own",
    ),
    Condition(
        ("algo.layer_norm", "algo.activation"),
        lambda c: not _is_users(c) or c.algo.hidden or c.algorithm == "r2d2",  # type: ignore[attr-defined]
        "fully connected layers (--hidden)",
    ),
    Condition(("gorila.",), lambda c: c.mode.has_members, "--cluster gorila"),
    Condition(("checkpoint.minutes",), lambda c: c.checkpoint.interval is None, "a run without --checkpoint.interval"),
    Condition(("init_only",), lambda c: bool(c.init), "--init"),
    Condition(("address",), lambda c: c.mode.over_ray, "--cluster gorila or ray"),
    Condition(
        ("distributed.chunks", "distributed.local_updates", "distributed.warmup_updates", "distributed.pull_steps"),
        _async,
        "--update async",
    ),
    Condition(
        ("distributed.hash_interval", "distributed.max_restarts"),
        lambda c: c.mode.has_ranks and not _async(c),
        "several ranks (--ranks) with --update all-reduce",
    ),
    Condition(("distributed.timeout_s",), lambda c: c.mode.has_ranks, "several ranks (--ranks)"),
    Condition(("secondary.rate",), lambda c: c.secondary.batch > 0, "--secondary.batch"),
    Condition(("wandb_project",), lambda c: c.wandb != "disabled", "--wandb offline or online"),
    Condition(("evaluation.steps",), lambda c: not c.evaluation.episodes, "--evaluation.episodes 0"),
    Condition(
        ("sampler.groups",),
        lambda c: not c.sampler.inference_per_worker or c.sampler.groups == 1,
        "--no-inference-per-worker",
    ),
    Condition(
        (
            "sampler.workers",
            "sampler.inference_per_worker",
            "sampler.timeout_s",
            "strict",
            "sampler.start_timeout_s",
            "sampler.on_error",
        ),
        lambda c: c.sampler.has_workers,
        "--sampler.engine workers",
    ),
)


def lines(given: TrainConfig, resolved: Resolved) -> list[str]:
    """The warnings with which a run begins. `resolved` is `given` after resolution."""
    of_run = filter(None, (warning(given), other_network(given, resolved)))
    return [*of_run, *inactive(given, resolved), *clamped(resolved)]


FILLED = {"env.randomness": "sequence"}
"""{setting: value that `resolve` writes into config.json if the setting has no effect in the run}"""


def inactive(config: TrainConfig, resolved: Resolved) -> list[str]:
    """A line for each setting that was changed from its default but has no effect. `resolved` is `config` after
    resolution."""
    default = values_in(default_config(config.algorithm))
    changed = {
        name: value
        for name, value in values_in(config).items()
        if value not in (default.get(name, value), FILLED.get(name))
    }
    algorithm = find_algorithm(config.algorithm)
    never = {f"algo.{name}" for name in unread(algorithm)}
    of_algorithm = {f"algo.{name}": needs for name, needs in resolved.algo.inactive().items()}
    lines = []
    for name, value in changed.items():
        unmet = [c.needs for c in CONDITIONS if c.covers(name) and not c.holds(resolved)]
        needs = of_algorithm.get(name) or next(iter(unmet), "")
        if name in never or needs:
            why = f"it needs {needs}" if needs else f"{algorithm.__name__} does not read it"
            lines.append(f"--{name.replace('_', '-')} {value} has no effect: {why}")
    return lines


def clamped(config: Resolved) -> list[str]:
    """A line for each setting that is larger than what the run can use."""
    lines = []
    samples, minibatch = config.T * config.sampler.envs, getattr(config.algo, "minibatch", 0)
    if config.env_steps < samples and not config.updates:
        lines.append(f"--env-steps {config.env_steps}: the run ends with a whole rollout, at {samples:,} env steps")
    if minibatch > samples:
        lines.append(
            f"--minibatch {minibatch}: a rollout has {samples} samples ({config.sampler.envs} environments x "
            f"{config.T} steps), so each epoch is one minibatch of {samples}"
        )
    evaluation = config.evaluation
    parallel, default = evaluation.parallel, default_config(config.algorithm).evaluation.parallel
    if evaluation.interval and 0 < evaluation.episodes < parallel != default:
        lines.append(
            f"--evaluation.parallel {parallel}: an evaluation of {evaluation.episodes} episodes uses "
            f"{evaluation.episodes} environments"
        )
    return lines


def warning(config: TrainConfig) -> str:
    """A warning if the learning rate becomes zero before the end of the run, or if the run makes no updates; otherwise
    ""."""
    is_linear = getattr(config.algo, "learning_rate_schedule", "") == "linear"
    if is_linear and (end := config.schedule_steps) and end < config.env_steps:
        return f"the learning rate is zero from --schedule-steps {end} to --env-steps {config.env_steps}"
    if not isinstance(config.algo, ReplayAlgorithmConfig) or config.updates:
        return ""
    replays = config.gorila.bundles if config.mode.has_members and config.gorila.replay == "local" else 1
    start = config.algo.replay.start * replays
    if config.env_steps > start:
        return ""
    return (
        f"this run makes no update: learning begins at --replay.start {config.algo.replay.start} transitions"
        + (f" in each of {replays} replays" if replays > 1 else "")
        + f", and the run ends at --env-steps {config.env_steps}; give more env steps, or a smaller --replay.start"
    )


def other_network(config: TrainConfig, resolved: Resolved) -> str:
    """A line if another network than the default is used for small pictures, or ""."""
    before, after = (getattr(c.algo, "network", "") for c in (config, resolved))
    if before == after or not (picture := resolved.spec.picture):
        return ""
    size = "x".join(map(str, picture.frame_shape[-2:]))
    return f"pictures of {size} are too small for --network {before}: --network {after}"


def limit(config: TrainConfig, shares: Mapping[str, float]) -> str:
    """A line that lists the fraction of a run's time for each activity, and advises how to reduce the largest fraction.
    "" if the fractions are unknown. The activity `other` comprises evaluations, checkpoints and metrics."""
    if not shares:
        return ""
    largest = max(shares, key=lambda name: shares[name])
    advice = ""
    if largest == "other":
        advice = "; see --evaluation.interval and --checkpoint.minutes"
    elif largest == "updates" and config.precision == "float32" and gains_from_bfloat16():
        advice = "; this CPU has instructions for --precision bfloat16, which changes the numbers"
    listed = ", ".join(f"{name} {100 * share:.0f} %" for name, share in shares.items())
    return f"time: {listed}{advice}"
