"""Computes the hours of the papers' experiments from measured rates, for the table of docs/experiments.md.

| command | rates |
|---|---|
| `python -m experiments.hours` | experiments/hours.json: two CPU cores, and the papers' machines |
| `python -m experiments.hours --rate A2C=9000 PPO=7000` | env steps/s of another machine, from `accel-rl report` |

A run's rate is looked up by the run's name in the papers' figures (A2C-256env), or otherwise by its family (A2C).
"""

import json
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

from accel_rl.metrics.nested import flat
from accel_rl.papers.daley.daley_tables import daley_differences, daley_hours
from accel_rl.papers.dalton import dalton_tables
from accel_rl.parsing.arguments import parse, stdout
from accel_rl.results import run_settings
from accel_rl.sweeps.grid import GridMember, find_grid
from accel_rl.text.errors import ConfigError

EXPERIMENTS = (
    *(f"stooke:figure_{n}" for n in range(3, 13)),
    *(f"stooke:table_{n}" for n in range(1, 4)),
    "daley:table_1",
    "daley:table_4",
    "dalton:table_3",
    "gorila:tables",
    *(f"stooke:{name}" for name in ("step_size_rules", "step_size_warmup", "dqn_simulators")),
)
GPUS = 8  # The machine of Stooke & Abbeel 2018 has 8 GPUs.


@dataclass(frozen=True)
class Options:
    rate: tuple[str, ...] = ()
    """Env steps/s of a name or family on the user's machine, with one run at a time: A2C=9000 DQN-512=1200."""


@cache
def measured() -> dict[str, Any]:
    """The content of experiments/hours.json: env steps/s on two cores, and hours that the papers print, with
    sources."""
    return dict(json.loads(files("experiments").joinpath("hours.json").read_text()))


def of(settings: Mapping[str, Any], table: Mapping[str, float]) -> float | None:
    """Return the value of a run in a table by the run's name or family, or None if the table has neither. A value for
    the run's name has precedence over a value for its family."""
    family = "Sampling" if run_settings.samples_only(settings) else run_settings.family(settings)
    name = run_settings.name(settings)
    if settings.get("cluster") == "gorila":
        return table.get("Gorila")
    if dalton_tables.column(settings):
        return table.get("CuLE")
    if settings.get("secondary.batch"):
        return table.get(f"{family}-secondary")
    if settings.get("env.protocol") == "mnih2015":
        name = f"Daley-{'concurrent' if settings.get('schedule') == 'concurrent' else 'standard'}"
        return table.get(name)
    return table.get(name, table.get(family))


def by_rates(members: tuple[GridMember, ...], rates: Mapping[str, float]) -> float | None:
    """Hours of all runs one after another, from their env steps/s, or None if the rate of a run is unknown."""
    hours = 0.0
    for m in members:
        rate = of(dict(flat(m.config.to_dict())), rates)
        if rate is None:
            return None
        hours += m.config.env_steps / rate / 3600
    return hours


def on_the_papers(members: tuple[GridMember, ...], gpus: int) -> float | None:
    """Hours of all runs on `gpus` GPUs of the papers, from the hours that the papers print for 50 M env steps, or None
    if no hours are printed for a run. Several learners that share one GPU take as long as one learner that makes all
    their env steps."""
    hours = 0.0
    for m in members:
        at_once = min(m.needs.gpus, gpus)
        settings = dict(flat(m.config.to_dict()))
        printed = None if daley_differences(settings) else daley_hours(settings)
        if (hours_on_all := dalton_tables.hours(settings)) is not None:
            printed = hours_on_all * m.needs.gpus / at_once
        for n in (str(at_once), "1"):
            printed = of(settings, measured()["paper"].get(n, {})) if printed is None else printed
        if printed is None:
            return None
        hours += printed * m.config.env_steps / 50e6 * at_once / gpus
    return hours


def rows(given: Mapping[str, float]) -> Iterator[list[str]]:
    """A row for each experiment: name, runs, hours on two cores (or at the rates `given`), on one and eight GPUs."""
    rates = given or measured()["two cores"]["env_steps_per_s"]
    for name in EXPERIMENTS:
        members = find_grid(f"experiments.{name}").members
        cells = [by_rates(members, rates), on_the_papers(members, 1), on_the_papers(members, GPUS)]
        yield [f"`experiments.{name}`", f"{len(members)}", *(text(c) for c in cells)]


def text(hours: float | None) -> str:
    if hours is None:
        return "-"
    return f"{hours:.1f}" if hours < 10 else f"{hours:,.0f}"


def rates_of(words: tuple[str, ...]) -> dict[str, float]:
    """Parse words NAME=RATE, and return {name: env steps/s}. Raises ConfigError."""
    result = {}
    for word in words:
        name, _, rate = word.partition("=")
        try:
            result[name] = float(rate)
        except ValueError:
            result[name] = 0.0
        if not result[name] > 0:
            raise ConfigError(f"--rate {word}: wanted NAME=ENV_STEPS_PER_SECOND, such as A2C=9000")
    return result


def main(argv: list[str]) -> int:
    try:
        o = parse(Options, argv, "python -m experiments.hours", __doc__ or "")
        rates = rates_of(o.rate)
        stdout(f"| sweep | runs | hours {'at your rates' if rates else 'on two cores'} | one P100 | eight P100 |")
        stdout("|---|---|---|---|---|")
        for row in rows(rates):
            stdout(f"| {' | '.join(row)} |")
    except ConfigError as e:
        print(f"experiments.hours: {e}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
