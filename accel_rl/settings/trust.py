"""Settings may name a user's code, as `module:Class`. Code that a folder's config.json names is imported only if the
user names the same code, or trusts the folder. Callbacks and sinks of accel_rl that send data to a server are also used
only if the user names them, or trusts the folder."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from accel_rl.text.errors import ConfigError

CODE = (
    "algorithm", "algo.network", "env.id", "sampler.engine", "distributed.update", "schedule", "callback", "sink"
)  # fmt: skip
"""The settings whose values may name code."""
OBSERVERS = ("callback", "sink")
LOCAL = tuple(
    name for short in ("StopAtScore", "SaveBest", "VideoEvery") for name in (short, f"accel_rl.api.callbacks:{short}")
)
"""The callbacks of accel_rl that only write to the run's folder. All other callbacks and all sinks send data to a
server or may write to any folder."""
Trust = bool | Collection[str]
"""True if the user trusts all code that a file names; otherwise, the names of the code that the user trusts."""


@dataclass(frozen=True)
class TrustOptions:
    """The option `trust` of all commands that import the code named in a folder's files."""

    trust: bool = False
    """Import and run the code that the folder's files name as module:Class. Without --trust, a folder is refused if it
    names code outside of accel_rl, or a callback or sink that sends data to a server."""


def code_names(values: Mapping[str, Any]) -> dict[str, str]:
    """{name: flag} for each name of code that must be trusted: code outside of this package, and callbacks and sinks
    that are not in `LOCAL`. `values` are the settings, as plain JSON."""
    result: dict[str, str] = {}
    for setting in CODE:
        group, _, last = setting.rpartition(".")
        part = values.get(group) if group else values
        value = part.get(last) if isinstance(part, Mapping) else None
        for name in value if isinstance(value, list | tuple) else [value]:
            if not isinstance(name, str):
                continue
            function = name.partition("(")[0].strip()
            if setting in OBSERVERS:
                if function not in LOCAL:
                    result[name] = f"--{setting}"
                continue
            if ":" not in function:
                continue
            # The setting env.id must always be trusted, because it could call any function of accel_rl.
            if setting == "env.id" or not name.startswith("accel_rl."):
                result[name] = f"--{setting}"
    return result


def check_trust(names: Mapping[str, str], trust: Trust) -> None:
    """Raise ConfigError if a file names code that the user does not trust. `names` maps each module:Class in the file
    to its flag."""
    trusted = [] if isinstance(trust, bool) else trust
    refused = [f"{flag} {name}" for name, flag in names.items() if name not in trusted]
    if refused and trust is not True:
        raise ConfigError(
            f"would import and run {', '.join(refused)}: if you trust the folder, add --trust (in Python: Run(path, "
            "trust=True))"
        )
