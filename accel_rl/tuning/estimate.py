"""This module estimates the best placement of a run on another machine, which a file describes, from the times of the
run's parts on this machine."""

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

from accel_rl.config.resolved import resolve
from accel_rl.config.train import TrainConfig
from accel_rl.config.tuned import given_settings
from accel_rl.runners.plan import RankPlan
from accel_rl.runners.signals import Stopped, StopRequest
from accel_rl.system import hardware
from accel_rl.system.errors import ConfigError
from accel_rl.system.machine import Machine
from accel_rl.tuning.candidates import Changes, Parts, Timing, candidates, options_text, predict
from accel_rl.tuning.measured_training import MeasuredTraining
from accel_rl.tuning.tuner import measurable, measure_parts, placement_text

Rates = tuple[float, float, float]
"""Rates of emulation on one core, of inference, and of updates. A rate of 0 is measured."""


def estimate(config: TrainConfig, machine: Machine, rates: Rates, seconds: float, stop: StopRequest) -> Iterator[str]:
    """Yield lines about the placements of a run on a machine. Nothing is measured if all rates are given. If the other
    machine has a GPU and this machine has none, rates of inference and updates that are not given are unknown."""
    local = hardware.usable_cores()
    same_device = bool(machine.gpus) == bool(hardware.gpu_count())
    plans = _plans(config, machine)
    parts = Parts(0.0)
    if not all(rates) and (same_device or not rates[0]):
        batches = {(p.sampler.grouping.B // p.sampler.grouping.groups, p.sampler.act_threads) for _, p in plans}
        threads = {1, len(local)} if same_device else set()
        pairs = {(n, t) for n, a in batches for t in {1, min(a, len(local))}} if same_device else set()
        measured_config = measurable(replace(config, device="auto" if machine.gpus and same_device else "cpu"))
        with suppress(Stopped), TemporaryDirectory(prefix="accel_rl-tune-") as folder, stop.ends_wait():
            run = MeasuredTraining(measured_config, Path(folder) / "run")
            try:
                parts = measure_parts(run, sorted(pairs), sorted(threads), min(seconds, 15.0))
            finally:
                run.close()
        if stop:
            return
        yield f"measured here: emulation {1 / parts.emulation:,.0f} env steps/s on one core"
    parts = _with_rates(parts, rates, plans, same_device)
    unknown = [name for name, known in (("inference", parts.inference), ("update", parts.updates)) if not known]
    yield from _lines(config, plans, parts)
    if unknown:
        options = " and ".join(f"--{name}-rate" for name in unknown)
        yield f"not known: {' and '.join(unknown)} on the GPU ({options}), so the estimates are upper bounds"


def _plans(config: TrainConfig, machine: Machine) -> list[tuple[Changes, RankPlan]]:
    with hardware.described(machine):
        given = given_settings(config)
        plans = list(candidates(config, given, bool(machine.gpus)))
        workers = len(hardware.usable_cores()) - bool(machine.gpus)
        B = config.sampler.envs
        # Proposals are multiples of the number of environments that can be divided evenly among all workers.
        for n in (1, 2, 4, 8):
            envs = max(1, round(n * B / (2 * workers))) * 2 * workers
            with suppress(ConfigError):
                if "sampler.envs" not in given and envs not in (B, *(c.get("sampler.envs") for c, _ in plans)):
                    wider = replace(config, sampler=replace(config.sampler, envs=envs))
                    plans.append(({"sampler.envs": envs}, RankPlan.resolve(resolve(wider))))
    return plans


def _with_rates(parts: Parts, rates: Rates, plans: list[tuple[Changes, RankPlan]], same_device: bool) -> Parts:
    """Return the parts, in which given rates replace measured times. Times that were measured on another kind of device
    are removed."""
    step, inference, update = rates
    batches = {p.sampler.grouping.B // p.sampler.grouping.groups for _, p in plans}
    timings = {n: Timing({1: n / inference}) for n in batches} if inference else parts.inference if same_device else {}
    updates = Timing({1: 1 / update}) if update else parts.updates if same_device else None
    return Parts(1 / step if step else parts.emulation, timings, updates)


def _lines(config: TrainConfig, plans: list[tuple[Changes, RankPlan]], parts: Parts) -> Iterator[str]:
    default = predict(plans[0][1], parts)
    text = placement_text(plans[0][1])
    yield f"default: {text}: {default.rate:,.0f} env steps/s (estimated), limited by {default.limit}"
    ranked = sorted(plans, key=lambda p: -predict(p[1], parts).rate)
    same = next((p for p in ranked if "sampler.envs" not in p[0] and "sampler.engine" not in p[0]), plans[0])
    wider = [p for p in ranked if "sampler.envs" in p[0]]
    if predict(same[1], parts).rate < 1.02 * default.rate:
        yield "same algorithm: no other placement is predicted to be faster"
    for label, (changes, plan) in (("same algorithm", same), *(("other T x B", p) for p in wider[:2])):
        p = predict(plan, parts)
        if p.rate < 1.02 * default.rate:
            continue
        yield (
            f"{label}: {options_text(changes)}: {placement_text(plan)}: {p.rate:,.0f} env steps/s (estimated), "
            f"{p.rate / default.rate:.2f} x the default, limited by {p.limit}"
        )
