"""Measures sampling without learning on a GPU: with inference in CUDA graphs, with inference from Python, and by random
play, which is an upper bound."""

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from functools import partial

import torch

from accel_rl.text import output
from benchmarks.gpu.bench import Bench, Result
from benchmarks.gpu.training import envs_near, settings
from benchmarks.harness.agents import NAMES, make_agent
from benchmarks.harness.measured_training import synchronize
from benchmarks.harness.program import Case
from benchmarks.harness.sampling import Sampling
from benchmarks.harness.turns import Measure

WARM_UP = 4
"""Number of rollouts after which inference has been captured as CUDA graphs for both rollout buffers."""
WAITS = ("cudaEventSynchronize", "cudaStreamSynchronize", "cudaDeviceSynchronize", "cudaMemcpy")


def measure(bench: Bench) -> Result:
    """Measure the speed of sampling with each network and each number of environments."""
    notes: list[str] = []
    result = bench.run([partial(case, bench, envs_near(n, bench), notes) for n in bench.sizes.acting_envs])
    result.notes = [line for line in dict.fromkeys(notes) if "--sampler.no-capture" not in line]
    return result


def case(bench: Bench, envs: int, notes: list[str], stack: ExitStack) -> Case:
    """Build samplers with and without inference in CUDA graphs, and count the host's waits for the GPU."""
    stack.enter_context(output.written(notes.append, notes.append))
    variants: dict[str, Measure] = {}
    waits: dict[str, float] = {}
    for capture in (True, False):
        config = settings(bench, "a2c", envs, bench.sizes.acting_horizon)
        config = replace(config, sampler=replace(config.sampler, capture=capture))
        sampling = Sampling(config)
        stack.callback(sampling.close)
        for net in ("none", "a3c", "dqn") if capture else ("a3c", "dqn"):
            agent = make_agent(net, sampling.spec, bench.device)
            name = NAMES[net] if net == "none" else f"{NAMES[net]}{', CUDA graph' * capture}"
            variants[name] = partial(sampling.rate, agent, warm_up=WARM_UP)
            if net != "none":
                sampling.collect(agent, WARM_UP)
                counted = host_waits(bench.device, partial(sampling.collect, agent, 2))
                waits[name] = counted / (2 * sampling.sampler.T * sampling.grouping.groups)
    return Case({"environments": envs}, variants, columns=lambda _: {"host waits a served group": waits})


def host_waits(device: str, work: Callable[[], object]) -> int:
    """Count how often the host waits for the GPU in one call of `work`, by torch's profiler, or on the simulated GPU by
    its counter."""
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
