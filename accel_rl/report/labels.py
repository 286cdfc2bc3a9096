"""Labels of runs in plots and reports: a name, and the settings that change learning and differ between the runs."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from accel_rl.metrics.nested import flat
from accel_rl.metrics.plot import Labelled
from accel_rl.papers.paper import reported_papers
from accel_rl.results import run_settings
from accel_rl.run.listed_runs import updates_in

APART = (
    "seed", "run_dir", "preset", "wandb", "wandb_project", "callback", "sink", "strict", "address",
    "env.game", "env.id", "sampler.cores", "sampler.timeout_s", "sampler.start_timeout_s", "distributed.timeout_s",
    "gorila.timeout_s", "checkpoint.minutes", "checkpoint.interval", "checkpoint.keep", "log.interval",
    "log.tensorboard", "evaluation.interval", "evaluation.parallel", "evaluation.starts_file",
)  # fmt: skip
"""Settings that do not affect learning, or that plots and tables already contain elsewhere."""
OF_LENGTH = ("algo.warmup", "algo.exploration", "algo.replay.prioritized")
"""With one of these settings, or with a linear schedule, learning depends on the length of the run."""


def labels(settings: Sequence[Mapping[str, Any]]) -> list[str]:
    """A label for each run: its name in the papers' figures, or its algorithm, followed by the settings in which runs
    of this name differ. `settings` are those of each run by full names."""
    # A setting that is missing in a run of an earlier version has its default value.
    settings = [{**s, **_missing(s)} for s in settings]
    names = [_name_in_papers(s) or run_settings.name(s) or str(s.get("algorithm", "?")) for s in settings]
    differing: dict[str, list[str]] = {}
    for name in set(names):
        same = [s for s, n in zip(settings, names, strict=True) if n == name]
        keys = [k for k in dict.fromkeys(k for s in same for k in s) if k not in APART]
        differing[name] = [k for k in keys if len({json.dumps(s.get(k)) for s in same}) > 1]
        if not any(map(_depends_on_length, same)):
            differing[name] = [k for k in differing[name] if k != "env_steps"]
    return [
        ", ".join([name, *(f"{_short(k)}={_named(s.get(k))}" for k in differing[name])])
        for s, name in zip(settings, names, strict=True)
    ]


def _name_in_papers(settings: Mapping[str, Any]) -> str:
    return next(filter(None, (paper.run_name(settings) for paper in reported_papers())), "")


def _missing(settings: Mapping[str, Any]) -> dict[str, Any]:
    defaults = run_settings.defaults(str(settings.get("algorithm")))
    return {name: value for name, value in defaults.items() if name not in settings}


def labelled(configs: Sequence[Mapping[str, Any]]) -> list[Labelled]:
    """`configs` contains the content of each run's config.json."""
    settings = [dict(flat(config)) for config in configs]
    return [
        Labelled(
            label,
            str(s.get("env.game") or s.get("env.id") or "?"),
            str(s.get("seed")),
            0 if updates_in(s) else int(s.get("env_steps") or 0),
        )
        for label, s in zip(labels(settings), settings, strict=True)
    ]


def _depends_on_length(settings: Mapping[str, Any]) -> bool:
    scheduled = "linear" in settings.values() or any(settings.get(name) for name in OF_LENGTH)
    return scheduled and not settings.get("schedule_steps")


def _short(key: str) -> str:
    """The name of a setting without its group, if the name is clear without the group (unlike evaluation.steps)."""
    group, _, name = key.rpartition(".")
    return name if group in ("", "algo", "sampler", "env", "distributed") else key


def _named(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) and len(str(value)) > 8 else str(value)
