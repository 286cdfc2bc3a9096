"""The 14 variants of Daley & Amato 2021, tables 1 to 3: `benchmarks.concurrent` on this device."""

import contextlib
from dataclasses import replace
from typing import Any

from accel_rl.config.train import TrainConfig
from benchmarks.concurrent import PAPER_HOURS, STEPS, Options, Variant, variants
from benchmarks.gpu.bench import Bench, Goal, Result
from benchmarks.gpu.training import Training
from benchmarks.interleave import medians

COLUMNS = ("samplers", "variant", "env steps/s", "hours for 50 M", "speed-up", "the paper's speed-up")
PAPER_BOTH = 1_543.0
"""Env steps/s of the paper's fastest variant: 8 samplers, both features."""


def measure(bench: Bench) -> Result:
    """Measure whole training of every variant in turns, each in worker processes."""
    sizes = bench.sizes
    network: Any = sizes.daley_network
    options = Options("pong", samplers=sizes.samplers, period=sizes.period, device=bench.device, network=network)
    with contextlib.ExitStack() as stack:
        built: dict[Variant, Training] = {}
        for variant in variants(options.samplers):
            built[variant] = Training(bench, f"daley {variant.name}", settings(bench, options, variant))
            stack.callback(built[variant].close)
        found = bench.turns({variant.name: training.training for variant, training in built.items()})
        notes = list(dict.fromkeys(line for training in built.values() for line in training.notes()))
    m = medians(found)
    first = m[next(iter(built)).name]
    rows: list[list[Any]] = []
    for variant in built:
        hours = PAPER_HOURS.get((variant.samplers, variant.concurrent, variant.synchronized))
        rate = m[variant.name]
        paper = PAPER_HOURS[1, False, False] / hours if hours else None
        rows.append([variant.samplers, variant.name.split()[1], rate, STEPS / rate / 3600, rate / first, paper])
    both = Variant(max(options.samplers), True, True)
    goals = [Goal(f"Daley & Amato, {both.name}: env steps/s", m[both.name], 10 * PAPER_BOTH)] if both in built else []
    return Result(COLUMNS, rows, goals, notes, found)


def settings(bench: Bench, options: Options, variant: Variant) -> TrainConfig:
    config = variant.config(options)
    algo: Any = config.algo
    start, steps = bench.sizes.daley_start, bench.sizes.decorrelation_steps
    return replace(
        config,
        algo=replace(algo, replay=replace(algo.replay, size=4 * start, start=start)),
        sampler=replace(config.sampler, decorrelation_steps=steps),
    )
