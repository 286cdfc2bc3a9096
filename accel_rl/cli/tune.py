"""The command accel-rl tune ALGORITHM [options] finds the fastest placement of a run on this machine, or estimates the
fastest placement on another machine, which a file describes."""

import statistics
import time
from dataclasses import dataclass, fields
from typing import Any

from accel_rl.cli.train_command import parse_train
from accel_rl.config.advice import run_words
from accel_rl.config.arguments import parse, positionals, split, stdout
from accel_rl.config.flags import flags_of
from accel_rl.config.help import asked
from accel_rl.config.resolved import resolve
from accel_rl.config.train import TrainConfig
from accel_rl.config.tuned import NAME, Tuned, given_settings, machine_name, write_tuned
from accel_rl.runners.signals import StopRequest
from accel_rl.system import hardware
from accel_rl.system.errors import ConfigError
from accel_rl.system.machine import read_machine

BUSY = 0.2
"""A machine counts as busy if other processes use more than this fraction of the cores."""
DOES = """Find the fastest placement of a run on this machine, and store it as the preset `tuned`.

ALGORITHM and further options are those of accel-rl train, and options that are given are kept. The command changes only
workers, groups, inference per worker, the engine and threads, which leave the algorithm and T x B unchanged. The
precision and the number of environments are measured and proposed, never changed. Whole training is measured against
the defaults in turns, and a placement is stored only if it is faster by 2 % or more in the median and in significantly
many turns. A replay has at most 50,000 transitions, and rollouts are a few minibatches long. Ctrl-C ends the search and
keeps what is found."""


@dataclass(frozen=True)
class TuneOptions:
    seconds: float = 60.0
    """Length of the search in seconds. The search may take longer, because of the time to start processes and the
    shortest useful measurements."""
    machine: str = ""
    """File that describes another machine, as for accel-rl doctor. The placement for that machine is estimated from
    measurements on this machine, and nothing is stored."""
    step_rate: float = 0.0
    """With --machine: env steps/s of emulation on one core of the described machine. By default, emulation is measured
    on this machine."""
    inference_rate: float = 0.0
    """With --machine: observations/s of inference on the described machine. By default, inference is measured on this
    machine."""
    update_rate: float = 0.0
    """With --machine: env steps/s of updates, without sampling, on the described machine. By default, updates are
    measured on this machine."""

    def check(self) -> None:
        for f in fields(self):
            value, flag = getattr(self, f.name), f"--{f.name.replace('_', '-')}"
            if f.name == "machine":
                continue
            if f.name == "seconds" and not 1 <= value <= 3600:
                raise ConfigError(f"{flag} {value:g}: must be 1 to 3600")
            if not 0 <= value < float("inf"):
                raise ConfigError(f"{flag} {value:g}: must be above 0")
            if f.name.endswith("rate") and value and not self.machine:
                raise ConfigError(f"{flag} {value:g}: only with --machine, because this machine is measured")


def main(argv: list[str]) -> int:
    """Run the command accel-rl tune ALGORITHM [options]."""
    options, config = parsed(argv)
    return _estimate(config, options) if options.machine else _tune(config, options)


def parsed(argv: list[str]) -> tuple[TuneOptions, TrainConfig]:
    """Return (options of the command, settings of the run), or raise ConfigError."""
    prog = "accel-rl tune"
    words, rest = positionals(argv, [] if asked(argv) else ["the algorithm (ppo, or module:Class)"], prog, many=True)
    flags = flags_of(TuneOptions)
    of_command, rest = split(rest, flags)
    options = parse(TuneOptions, of_command, f"{prog} ALGORITHM", DOES)
    options.check()
    config = parse_train([*words, *rest], prog, "Tune a run.", flags)
    _check(config)
    return options, config


def _check(config: TrainConfig) -> None:
    if config.preset == NAME:
        raise ConfigError(
            f"--preset {NAME}: accel-rl tune measures the defaults against other placements; leave it out"
        )
    if config.distributed.several or config.cluster != "none":
        raise ConfigError("accel-rl tune: a run of one rank is tuned; leave out --ranks, --gpus and --cluster")
    if config.schedule != "lockstep":
        raise ConfigError(f"--schedule {config.schedule}: accel-rl tune measures the schedule lockstep")
    resolve(config)


def _tune(config: TrainConfig, options: TuneOptions) -> int:
    # The training code is imported here, so that help and error messages appear without the delay of the import.
    from accel_rl.tuning.tuner import Tuner

    environment = config.env.game or config.env.id
    stdout(f"tune {config.algorithm} on {environment}: about {options.seconds:.0f} s on {machine_name()}")
    if (busy := hardware.busy_cores()) > BUSY * len(hardware.usable_cores()):
        stdout(
            f"note: other processes use {busy:.1f} cores: the result holds for this load, so tune on an idle machine"
        )
    began = time.monotonic()
    with StopRequest() as stop:
        tuner = Tuner(
            config, options.seconds, stop, lambda line: stdout(f"  {time.monotonic() - began:5.1f} s  {line}")
        )
        tuner.run()
    outcome = tuner.outcome
    changes = outcome.changes if outcome.is_faster else {}
    if stop and not changes:
        stdout("stopped before a placement was measured to be faster than the defaults: nothing is stored")
        return stop.exit_code
    gain = _spread(outcome.ratios) if changes else (1.0, 1.0, 1.0)
    result = Tuned(
        machine_name(), config.algorithm, environment, {**given_settings(config), **changes},
        round(outcome.rate if changes else outcome.default_rate, 1), gain, outcome.shares, time.strftime("%Y-%m-%d"),
    )  # fmt: skip
    for line in _results(tuner, result, changes):
        stdout(line)
    file = write_tuned(result)
    stdout(f"stored in {file}: accel-rl train {run_words(config.algorithm, environment)} --preset {NAME}")
    return stop.exit_code


def _results(tuner: Any, result: Tuned, changes: dict[str, Any]) -> list[str]:
    from accel_rl.tuning.candidates import options_text

    outcome, lines = tuner.outcome, []
    if changes:
        lines.append(
            f"fastest: {options_text(changes)}: {result.rate:,.0f} env steps/s, {_ratio(outcome.ratios)} the defaults"
        )
    else:
        tried = f" (the best other: {_ratio(outcome.ratios)} the defaults)" if outcome.ratios else ""
        lines.append(f"fastest: the defaults, {result.rate:,.0f} env steps/s{tried}")
    if outcome.shares:
        listed = ", ".join(f"{name} {100 * share:.0f} %" for name, share in outcome.shares.items())
        lines.append(f"limit: {result.limit} ({listed})")
    for option, ratios in outcome.proposals.items():
        if min(ratios) > 1:
            lines.append(f"not changed: {option}: {_ratio(ratios)} this rate, but changes what is learned")
    return lines


def _spread(ratios: list[float]) -> tuple[float, float, float]:
    return round(statistics.median(ratios), 3), round(min(ratios), 3), round(max(ratios), 3)


def _ratio(ratios: list[float]) -> str:
    """Format ratios, such as "1.08 x (1.05 to 1.12 in 6 turns)"."""
    median, least, most = _spread(ratios)
    return f"{median:.2f} x ({least:.2f} to {most:.2f} in {len(ratios)} turns)"


def _estimate(config: TrainConfig, options: TuneOptions) -> int:
    """Print the placement that is predicted to be the fastest on a described machine."""
    from accel_rl.tuning.estimate import estimate

    machine = read_machine(options.machine)
    stdout(f"machine: {machine.resources()}")
    rates = (options.step_rate, options.inference_rate, options.update_rate)
    with StopRequest() as stop:
        for line in estimate(config, machine, rates, options.seconds, stop):
            stdout(line)
    return stop.exit_code
