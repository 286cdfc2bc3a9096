"""Sampling without a learner, by network, number of environments and capture; random play is the ceiling."""

import contextlib
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

from accel_rl.config.resolved import fill_in
from accel_rl.data.spec import EnvSpec
from accel_rl.runners.build import build_sampler
from accel_rl.runners.plan import RankPlan
from accel_rl.samplers.sampler import Sampler
from accel_rl.system import events
from accel_rl.system.process import tune_torch
from benchmarks.agents import NAMES, make_agent
from benchmarks.gpu.bench import Bench, Result
from benchmarks.gpu.training import declare_parts, envs_near, settings
from benchmarks.gpu.waits import host_waits
from benchmarks.interleave import medians

COLUMNS = ("actions", "environments", "CUDA graph", "env steps/s", "share of random play", "host waits a served group")
WARM_UP = 4
"""Rollouts until acting is captured, for each of the sampler's two buffers."""


def measure(bench: Bench) -> Result:
    result = Result(COLUMNS)
    for i, envs in enumerate(bench.sizes.acting_envs):
        _measure(bench, envs_near(envs, bench), 1 / (len(bench.sizes.acting_envs) - i), result)
    return result


def _measure(bench: Bench, envs: int, share: float, result: Result) -> None:
    notes: list[str] = []
    with contextlib.ExitStack() as stack:
        samplers = {capture: _sampler(bench, envs, capture, stack, notes) for capture in (True, False)}
        parts: dict[tuple[str, bool], Callable[[float], float]] = {}
        waits: dict[tuple[str, bool], float | None] = {}
        for net in ("none", "a3c", "dqn"):
            for capture, (sampler, spec) in samplers.items():
                if net != "none" or capture:
                    agent = make_agent(net, spec, bench.device)
                    parts[net, capture] = partial(_acting, bench, sampler, agent)
                    waits[net, capture] = None if net == "none" else _waits(bench, sampler, agent)
        found = bench.turns({f"{NAMES[n]}, {envs}{' captured' * c}": work for (n, c), work in parts.items()}, share)
    m = medians(found)
    ceiling = m[f"{NAMES['none']}, {envs} captured"]
    for (net, capture), each in waits.items():
        rate = m[f"{NAMES[net]}, {envs}{' captured' * capture}"]
        how = "-" if net == "none" else "yes" if capture else "no"
        result.rows.append([NAMES[net], envs, how, rate, rate / ceiling, each])
    result.notes += [line for line in dict.fromkeys(notes) if "--sampler.no-capture" not in line]
    result.measurements |= found


def _sampler(
    bench: Bench, envs: int, capture: bool, stack: contextlib.ExitStack, notes: list[str]
) -> tuple[Sampler, EnvSpec]:
    chosen = settings(bench, "a2c", envs, bench.sizes.acting_horizon)
    config = fill_in(replace(chosen, sampler=replace(chosen.sampler, capture=capture)))
    plan = RankPlan.resolve(config)
    tune_torch(plan.placement.torch_threads)
    spec = config.spec
    sampler = build_sampler(plan.sampler, config.env, spec, config, seed=0, training=True)
    stack.enter_context(events.written(notes.append, notes.append))
    stack.callback(sampler.close)
    declare_parts(bench, sampler)
    return sampler, spec


def _acting(bench: Bench, sampler: Sampler, agent: Any, seconds: float) -> float:
    for _ in range(WARM_UP):
        sampler.collect(agent)
    return bench.rate(lambda: sampler.collect(agent).env_steps, seconds)


def _waits(bench: Bench, sampler: Sampler, agent: Any) -> float:
    """Count the host's waits for the GPU in two rollouts, a served group."""
    for _ in range(WARM_UP):
        sampler.collect(agent)
    waits = host_waits(bench, lambda: [sampler.collect(agent) for _ in range(2)])
    return waits / (2 * sampler.T * sampler.grouping.groups)
