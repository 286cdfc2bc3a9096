"""Settings that a published number belongs to (published_settings.json), and in which of them a run differs.

A published number may stand beside a run that differs, but never without the differences.
"""

import json
from collections.abc import Iterable, Mapping
from functools import cache
from importlib.resources import files
from typing import Any

from accel_rl.config.registry import ALGORITHMS
from accel_rl.config.train import default_config
from accel_rl.envs.protocols import OVERRIDES, resolve
from accel_rl.report.families import Settings, asynchronous, ranks
from accel_rl.system.errors import ConfigError


@cache
def published_settings() -> dict[str, dict[str, dict[str, Any]]]:
    """Read published_settings.json: {paper: {name: {setting: value, or list of equivalent values}}}."""
    return dict(json.loads(files("accel_rl.report").joinpath("published_settings.json").read_text()))


def wanted(paper: str, *names: str) -> dict[str, Any]:
    """Merge the settings of a paper's rows, columns or tables of these names."""
    found = published_settings()[paper]
    return {setting: value for name in names for setting, value in found[name].items()}


def differences(settings: Settings, published: Mapping[str, Any]) -> list[str]:
    """Return a text for each setting in which a run differs: `intensity=1 (paper: 8)`."""
    own = complete(settings)
    found = []
    for name, value in published.items():
        allowed = value if isinstance(value, list) else [value]
        if (got := own.get(name)) not in allowed:
            found.append(f"{name.rpartition('.')[2]}={_text(got)} (paper: {_text(allowed[0])})")
    return found


def complete(settings: Settings) -> dict[str, Any]:
    """Return a run's settings with defaults, the rules of its Atari protocol, and three derived ones.

    learners: number of gradients that are computed in parallel. actors: number of processes or ranks that sample.
    rollout: samples of one optimisation of a group of synchronous ranks.
    """
    found = {**_defaults(str(settings.get("algorithm"))), **{k: v for k, v in settings.items() if v is not None}}
    found |= _rules(found)
    on_cluster = found.get("cluster") == "gorila"
    bundles, more = (int(found.get(f"gorila.{name}") or 0) for name in ("bundles", "learners"))
    found["learners"] = ranks(found) * (bundles + more if on_cluster else 1)
    if found.get("sampler.horizon") is None:
        found["sampler.horizon"] = _horizon(found)
    if (T := found["sampler.horizon"]) is not None:
        found["rollout"] = int(T) * int(found.get("sampler.envs") or 0)
    found["update"] = "async" if asynchronous(found) or on_cluster else "sync"
    return found


@cache
def _defaults(algorithm: str) -> dict[str, Any]:
    """Return the default settings of an algorithm of this package; {} for others, whose modules are not imported."""
    return dict(flat(default_config(algorithm).to_dict())) if algorithm in ALGORITHMS else {}


def flat(config: Mapping[str, Any], prefix: str = "") -> Iterable[tuple[str, Any]]:
    """Flatten nested settings: (env.game, pong) ..."""
    for key, value in config.items():
        if isinstance(value, Mapping):
            yield from flat(value, f"{prefix}{key}.")
        else:
            yield prefix + key, value


def _rules(settings: Settings) -> dict[str, Any]:
    """Return {env.RULE: value} of the resolved Atari protocol; {} for other environments or an unknown protocol."""
    if settings.get("env.id"):
        return {}
    try:
        rules = resolve(str(settings.get("env.protocol")), {name: settings.get(f"env.{name}") for name in OVERRIDES})
    except ConfigError:
        return {}
    return {f"env.{name}": getattr(rules, name) for name in OVERRIDES}


def _horizon(settings: Settings) -> int | None:
    """Return the default horizon of a replay's algorithm."""
    if (batch := settings.get("algo.batch_size")) is None:
        return None
    return max(2, round(int(batch) / (float(settings["algo.intensity"]) * int(settings["sampler.envs"]))))


def _text(value: Any) -> str:
    if value is None:
        return "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:,}" if isinstance(value, int) else f"{value:g}" if isinstance(value, float) else str(value)
