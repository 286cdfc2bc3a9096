"""Only the settings in CHANGEABLE may change when a run is resumed."""

from collections.abc import Mapping
from typing import Any

from accel_rl.settings.flags import with_setting
from accel_rl.settings.train import TrainConfig
from accel_rl.settings.types import values_in
from accel_rl.text.errors import ConfigError

CHANGEABLE = {
    "algo.learning_rate": "the learning rate, from the next update on",
    "algo.learning_rate_schedule": "constant, linear or kl; `linear` follows the env steps of the whole run",
    "schedule_steps": "the env step at which linear schedules end",
    "env.restore": "replay or new: how episodes of Gymnasium environments are continued",
    "checkpoint.minutes": "minutes between checkpoints",
    "checkpoint.interval": "env steps between checkpoints",
    "checkpoint.keep": "number of checkpoints that are kept",
    "evaluation.interval": "env steps between evaluations",
    "evaluation.steps": "env steps of an evaluation",
    "evaluation.episodes": "episodes of an evaluation",
    "log.interval": "env steps between rows of metrics.csv",
    "log.norms": "norms of each layer as further columns",
    "log.tensorboard": "TensorBoard events",
    "callback": "callbacks",
    "sink": "sinks",
    "wandb": "mode of Weights & Biases",
    "wandb_project": "Weights & Biases project",
    "max_skipped_updates": "updates in a row that may be skipped",
    "strict": "end the run if a worker process dies",
    "torch_threads": "threads per torch operation",
    "sampler.timeout_s": "seconds of a step before its worker is replaced",
    "sampler.start_timeout_s": "seconds in which a worker starts",
    "distributed.timeout_s": "seconds in which a rank answers",
}
"""Maps each setting that a resumed run may change to its meaning. The length of the run, its device, cores, engine and
backend are options of `accel-rl resume`."""


def flag(name: str) -> str:
    return "--" + name.replace("_", "-")


def changed_settings(begun: TrainConfig, wanted: TrainConfig) -> dict[str, Any]:
    """{name: new value} for the settings that differ from those with which the run began, `begun`. Raises ConfigError,
    with a message of one line, for a setting that a run cannot change."""
    before = values_in(begun)
    changes = {name: value for name, value in values_in(wanted).items() if before.get(name) != value}
    for name, value in changes.items():
        if name not in CHANGEABLE:
            raise ConfigError(
                f"{flag(name)} {value}: the run has {before.get(name) or 'none'}, and a resume cannot change it; begin "
                "another run from its network: accel-rl train ... --init RUN (resume --help lists what may change)"
            )
    return changes


def with_changes(config: TrainConfig, changes: Mapping[str, Any]) -> TrainConfig:
    """The settings with `changes`, {name: new value}."""
    for name, value in changes.items():
        config = with_setting(config, name, value)
    return config
