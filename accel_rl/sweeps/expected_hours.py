"""Compute the expected hours of a sweep's runs, for the plan of the sweep, from the env steps/s of earlier runs."""

import json
import math
import statistics
from collections.abc import Iterable, Mapping
from pathlib import Path

from accel_rl.run.listed_runs import read_progress
from accel_rl.settings.train import TrainConfig
from accel_rl.sweeps.grid import pairs
from accel_rl.text.counts import counted
from accel_rl.text.errors import ConfigError

DEPTH = 3  # Runs are searched in the folder and in two levels of subfolders.


def measured_rates(folder: Path) -> dict[str, float]:
    """Return, for each algorithm, the median env steps/s of its runs in a folder, as {algorithm: rate}. The env steps/s
    of a run are those of its last row of metrics."""
    rates_of: dict[str, list[float]] = {}
    for depth in range(DEPTH):
        for file in folder.glob("*/" * depth + "config.json"):
            rate = read_progress(file.parent).steps_per_s
            try:
                algorithm = str(json.loads(file.read_text())["algorithm"])
            except (OSError, ValueError, KeyError, TypeError):
                continue
            if math.isfinite(rate) and rate > 0:
                rates_of.setdefault(algorithm, []).append(rate)
    return {algorithm: statistics.median(rates) for algorithm, rates in rates_of.items()}


def given_rates(words: Iterable[str]) -> dict[str, float]:
    """Parse words such as ppo=2000 into {algorithm: env steps/s}. Raises ConfigError."""
    result = {}
    for algorithm, text in pairs("--rate", tuple(words)).items():
        try:
            result[algorithm] = float(text)
        except ValueError:
            result[algorithm] = math.nan
        if not 0 < result[algorithm] < math.inf:
            raise ConfigError(f"--rate {algorithm}={text}: must be env steps/s above 0, such as ppo=2000")
    return result


def describe(configs: Iterable[TrainConfig], rates: Mapping[str, float], at_once: int) -> list[str]:
    """Return a line with the hours that the runs need, in total and with `at_once` runs at the same time, and a line
    with the algorithms whose rate is unknown. Runs on a cluster are ignored."""
    hours, unknown = dict[str, float](), dict[str, int]()
    for config in configs:
        name = config.algorithm
        if config.mode.over_ray:  # The env steps/s of a run on a cluster depend on the cluster's machines.
            continue
        if name in rates:
            hours[name] = hours.get(name, 0.0) + config.env_steps / rates[name] / 3600
        else:
            unknown[name] = unknown.get(name, 0) + 1
    lines = []
    if hours:
        total = sum(hours.values())
        by = ", ".join(f"{name} at {rates[name]:,.0f} env steps/s" for name in hours)
        each = f", {_text(total / at_once)} with {at_once} runs at the same time" if at_once > 1 else ""
        lines.append(f"about {_text(total)} of training ({by}){each}")
    if unknown:
        names = ", ".join(f"{counted(n, 'run')} of {name}" for name, n in unknown.items())
        lines.append(f"hours unknown for {names}: --rate {next(iter(unknown))}=ENV_STEPS_PER_S")
    return lines


def _text(hours: float) -> str:
    return f"{hours * 60:.0f} minutes" if hours < 1 else f"{hours:,.1f} hours"
