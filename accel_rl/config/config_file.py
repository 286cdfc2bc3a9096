"""The file config.json of a run has a format version. A config.json of an earlier format is converted when it is
read."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from accel_rl.system.errors import ConfigError

FORMAT = 4
"""Version of config.json. The format version is increased when a setting changes its name or meaning."""

# Maps each format of config.json to the settings that the next format renames.
_RENAMED: dict[int, dict[str, str]] = {
    1: {
        "group": "distributed",
        "distributed.lead": "distributed.warmup_updates",
        "distributed.answer_s": "distributed.timeout_s",
        "sampler.unsynchronized": "sampler.inference_per_worker",
        "evaluation.max_path": "evaluation.max_episode_steps",
        "algo.rule": "algo.optimizer",
        "algo.rule_decay": "algo.rmsprop_alpha",
        "algo.rule_epsilon": "algo.optimizer_eps",
    },
    2: {},
    3: {},
}
# Maps each format of config.json to the settings that the next format adds, with the values of earlier runs.
_ADDED: dict[int, dict[str, Any]] = {
    1: {
        "schedule": "lockstep",
        "cluster": "none",
        "address": "",
        "precision": "float32",
        "capture_updates": True,
        "sampler.capture": True,
        "env.noop_min": None,
        "env.fire_reset": None,
        "sampler.inference_per_worker": False,
        "evaluation.starts": "noop",
        "evaluation.starts_file": "",
        "secondary": {"batch": 0, "rate": 0.0},
        "distributed": {
            "ranks": None, "gpus": "", "update": "all-reduce", "chunks": 3, "local_updates": 1, "warmup_updates": 0,
            "pull_steps": 64, "hash_interval": 100, "max_restarts": 0, "timeout_s": 120.0,
        },
        "gorila": {
            "shards": 1, "max_delay": 100, "in_flight": 1, "outlier_deviations": 5.0, "push_updates": 1,
            "timeout_s": 60.0, "bundles": 2, "actors": 0, "learners": 0, "replay": "local", "updates": None,
            "min_bundles": 1, "snapshot_updates": 1_000, "bundle_cpus": 0.0, "bundle_gpus": 0.0,
        },
    },
    2: {"sampler.start_timeout_s": 120.0},
    3: {"sampler.on_error": "stop", "callback": [], "sink": [], "init": "", "init_only": "", "schedule_steps": None,
        "env.kwargs": "", "env.translate": "auto"},
}  # fmt: skip
_ADDED_FOR_ATARI: dict[int, dict[str, Any]] = {1: {"env.backend": "ale", "env.randomness": "sequence"}, 2: {}, 3: {}}
_Q_LEARNING = {"algo.target_unit": "env-steps", "algo.epsilon_unit": "env-steps", "algo.hidden": 0}
_ADDED_FOR_ALGORITHM: dict[int, dict[str, dict[str, Any]]] = {
    1: {
        "a2c": {"algo.warmup": 0.0},
        "ppo": {"algo.optimizer": "adam"},
        **dict.fromkeys(("dqn", "c51", "rainbow"), _Q_LEARNING),
    },
    2: {},
    3: {},
}


def migrated(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings of a config.json under the current names, without the format version. Raises ConfigError,
    with a message of one line, for a later format, two names of one setting, or an algorithm or a group of a wrong
    type."""
    version = values.get("format", 1)
    if type(version) is not int or not 1 <= version <= FORMAT:
        raise ConfigError(f"field format is {version!r}: this version of accel_rl reads formats 1 to {FORMAT}")
    for name in ("algorithm", "env", "algo"):  # The types of algorithm, env and algo are checked first.
        if name in values and not isinstance(values[name], str if name == "algorithm" else Mapping):
            kind = "a text" if name == "algorithm" else "a group of settings"
            raise ConfigError(f"--{name} {values[name]!r}: must be {kind}")
    result: dict[str, Any] = {
        name: dict(x) if isinstance(x, Mapping) else x for name, x in values.items() if name != "format"
    }
    for old in range(version, FORMAT):
        for before, name in _RENAMED[old].items():
            _rename(result, before, name, old)
        added = dict(_ADDED[old])
        if _get(result, "env.game"):
            added |= _ADDED_FOR_ATARI[old]
        added |= _ADDED_FOR_ALGORITHM[old].get(str(result.get("algorithm")), {})
        for name, value in added.items():
            _add(result, name, value)
    return result


def read_file(folder: Path) -> dict[str, Any]:
    """Read config.json of a run's folder without conversion. Raises ConfigError, with a message of one line that names
    the file."""
    file = folder / "config.json"
    try:
        values = json.loads(file.read_text())
    except FileNotFoundError as e:
        near = ", ".join(str(p.parent) for p in sorted(folder.glob("*/config.json"))[:3]) if folder.is_dir() else ""
        raise ConfigError(f"{folder} holds no run (no config.json)" + (f"; did you mean {near}" if near else "")) from e
    # json.loads raises RecursionError for JSON that is nested too deeply.
    except (OSError, ValueError, RecursionError) as e:
        raise ConfigError(f"{file} is not readable: {e}") from e
    if not isinstance(values, dict):
        raise ConfigError(f"{file} is no configuration")
    return values


def _section(values: dict[str, Any], name: str) -> tuple[dict[str, Any] | None, str]:
    """Return (section of config.json that contains a setting, name of the setting in the section). The section is None
    if config.json has no such section."""
    section, _, last = name.rpartition(".")
    result = values.get(section) if section else values
    return (result if isinstance(result, dict) else None), last


def _get(values: dict[str, Any], name: str) -> Any:
    section, last = _section(values, name)
    return None if section is None else section.get(last)


def _rename(values: dict[str, Any], before: str, name: str, version: int) -> None:
    old, last = _section(values, before)
    if old is None or last not in old:
        return
    new, new_last = _section(values, name)
    assert new is not None
    if new_last in new:
        raise ConfigError(f"has both {before}, the name of format {version}, and {name}, that of format {version + 1}")
    new[new_last] = old.pop(last)


def _add(values: dict[str, Any], name: str, value: Any) -> None:
    section, last = _section(values, name)
    if section is None:
        return
    if isinstance(value, dict) and isinstance(section.get(last), dict):
        section[last] = {**value, **section[last]}
    else:
        section.setdefault(last, value)
