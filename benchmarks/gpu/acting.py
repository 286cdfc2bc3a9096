"""Sampling without a learner, by network, number of environments and capture; random play is the ceiling."""

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from typing import Any

import torch

from benchmarks.gpu.bench import Bench, Result
from benchmarks.gpu.training import envs_near, settings
from benchmarks.harness.agents import NAMES, make_agent
from benchmarks.harness.sampling import Sampling
from benchmarks.harness.turns import medians, synchronize

COLUMNS = ("actions", "environments", "CUDA graph", "env steps/s", "share of random play", "host waits a served group")
WARM_UP = 4
"""Rollouts until acting is captured, for each of the sampler's two buffers."""
WAITS = ("cudaEventSynchronize", "cudaStreamSynchronize", "cudaDeviceSynchronize", "cudaMemcpy")


def measure(bench: Bench) -> Result:
    """Measure every network and number of environments."""
    result = Result(COLUMNS)
    for i, envs in enumerate(bench.sizes.acting_envs):
        _measure(bench, envs_near(envs, bench), 1 / (len(bench.sizes.acting_envs) - i), result)
    return result


def _measure(bench: Bench, envs: int, share: float, result: Result) -> None:
    notes: list[str] = []
    parts: dict[str, Callable[[float], float]] = {}
    rows: dict[str, list[Any]] = {}
    with ExitStack() as stack:
        for capture in (True, False):
            config = settings(bench, "a2c", envs, bench.sizes.acting_horizon)
            config = replace(config, sampler=replace(config.sampler, capture=capture))
            sampling = Sampling(config, note=notes.append)
            stack.callback(sampling.close)
            for net in ("none", "a3c", "dqn") if capture else ("a3c", "dqn"):
                agent = make_agent(net, sampling.spec, bench.device)
                name = f"{NAMES[net]}, {envs}{' captured' * capture}"
                parts[name] = partial(_acting, sampling, agent)
                waits = None if net == "none" else _waits(bench, sampling, agent)
                rows[name] = [NAMES[net], "-" if net == "none" else capture, waits]
        found = bench.turns(parts, share)
    m = medians(found)
    ceiling = m[f"{NAMES['none']}, {envs} captured"]
    result.rows += [[net, envs, how, m[name], m[name] / ceiling, each] for name, (net, how, each) in rows.items()]
    result.notes += [line for line in dict.fromkeys(notes) if "--sampler.no-capture" not in line]
    result.measurements |= found


def _acting(sampling: Sampling, agent: Any, seconds: float) -> float:
    sampling.collect(agent, WARM_UP)
    return sampling.rate(agent, seconds)


def _waits(bench: Bench, sampling: Sampling, agent: Any) -> float:
    """Count the host's waits for the GPU in two rollouts, a served group."""
    sampling.collect(agent, WARM_UP)
    waits = host_waits(bench.device, lambda: sampling.collect(agent, 2))
    return waits / (2 * sampling.sampler.T * sampling.grouping.groups)


def host_waits(device: str, work: Callable[[], object]) -> int:
    """Count how often one call of `work` makes the host wait for the device, by the profiler's record of CUDA's calls
    or by the simulated device's count."""
    synchronize(device)
    if device.startswith("sim"):
        from tests import simulated_device

        with simulated_device.counting() as waits:
            work()
        return sum(waits.values())
    activities = [torch.profiler.ProfilerActivity.CPU, torch.profiler.ProfilerActivity.CUDA]
    with torch.profiler.profile(activities=activities) as profile:
        work()
    return sum(1 for event in profile.events() if event.name in WAITS)
