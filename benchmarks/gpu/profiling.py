"""Where the time of updates and of acting goes: GPU kernels, the GPU's share of busy time, the host's time."""

import contextlib
import time
from collections.abc import Callable
from typing import Any

import torch
from torch.autograd import DeviceType

from accel_rl.algos.replay_algorithm import ReplayAlgorithm
from benchmarks.gpu.bench import Bench, Result
from benchmarks.gpu.q_learning import settings_of
from benchmarks.gpu.training import Training, envs_near, settings

COLUMNS = ("work", "operation", "calls", "us", "share of the wall clock")
TOP = 8


def measure(bench: Bench) -> Result:
    result = Result(COLUMNS)
    batch = dict(bench.sizes.batches)["dqn"]
    configs = {
        f"DQN-{batch}": settings_of(bench, "dqn"),
        "A2C": settings(bench, "a2c", envs_near(bench.sizes.policy_envs, bench)),
    }
    for name, config in configs.items():
        training = Training(bench, f"profile {name}", config)
        with contextlib.closing(training):
            for what, work, n in (
                (f"{name}, an update", *_updates(bench, training)),
                (f"{name}, a served group", *_acting(bench, training)),
            ):
                _profile(bench, what, work, n, result)
        result.notes += training.notes()
    return result


def _updates(bench: Bench, training: Training) -> tuple[Callable[[], object], int]:
    """Return a function that makes at least `profiled` updates, and their number."""
    algo = training.learner.algo

    def learn() -> int:
        if isinstance(algo, ReplayAlgorithm):
            algo.budget.set(bench.sizes.at_once)
        return len(training.learner.learn())

    n = learn()
    calls = -(-bench.sizes.profiled // n)
    return lambda: [learn() for _ in range(calls)], calls * n


def _acting(bench: Bench, training: Training) -> tuple[Callable[[], object], int]:
    sampler = training.sampler
    groups = sampler.T * sampler.grouping.groups
    calls = -(-bench.sizes.profiled // groups)
    return lambda: [sampler.collect(training.agent) for _ in range(calls)], calls * groups


def _profile(bench: Bench, what: str, work: Callable[[], object], n: int, result: Result) -> None:
    """Add the time on the host, in all, and of the longest kernels; n: updates or served groups of one call."""
    work()
    bench.synchronize()
    begin = time.perf_counter()
    work()
    host = time.perf_counter() - begin
    bench.synchronize()
    wall = time.perf_counter() - begin
    on_cuda = bench.device.startswith("cuda")
    activities = [torch.profiler.ProfilerActivity.CPU]
    activities += [torch.profiler.ProfilerActivity.CUDA] if on_cuda else []
    with torch.profiler.profile(activities=activities) as profile:
        began = time.perf_counter()
        work()
        bench.synchronize()
        profiled = time.perf_counter() - began
    result.rows.append([what, "all, without the profiler", n, wall / n * 1e6, 1.0])
    result.rows.append([what, "the host's part", n, host / n * 1e6, host / wall])
    events = [e for e in profile.events() if e.device_type == DeviceType.CUDA] if on_cuda else []
    busy = covered([(e.time_range.start, e.time_range.end) for e in events])
    if on_cuda:
        result.rows.append([what, "GPU busy, with the profiler", n, busy / n, busy / 1e6 / profiled])
    else:
        result.notes.append(f"{what}: no GPU kernels on {bench.device}; the longest operations of the host instead")
    rows = _longest(events) if on_cuda else _longest(profile.events())
    result.rows += [[what, name, calls, us / n, us / 1e6 / profiled] for name, calls, us in rows]
    result.measurements[what] = {"wall_us": wall / n * 1e6, "host_us": host / n * 1e6, "n": n, "gpu_busy_us": busy / n}
    if (used := utilization(bench)) is not None:
        result.notes.append(f"{what}: torch.cuda.utilization() says {used} %")


def _longest(events: Any) -> list[tuple[str, int, float]]:
    """Return (name, calls, microseconds) of the operations with the most time of their own."""
    found: dict[str, tuple[int, float]] = {}
    for e in events:
        calls, us = found.get(e.name, (0, 0.0))
        own = e.time_range.elapsed_us() if e.device_type == DeviceType.CUDA else e.self_cpu_time_total
        found[e.name] = calls + 1, us + own
    rows = [(name[:80].replace("|", "/"), calls, us) for name, (calls, us) in found.items()]
    return sorted(rows, key=lambda row: -row[2])[:TOP]


def covered(spans: list[tuple[float, float]]) -> float:
    """Return the length of the union of intervals."""
    total, end = 0.0, float("-inf")
    for begin, stop in sorted(spans):
        total += max(0.0, stop - max(begin, end))
        end = max(end, stop)
    return total


def utilization(bench: Bench) -> int | None:
    """Return what the driver says about the last moments; None if its library is not installed."""
    if not bench.device.startswith("cuda"):
        return None
    try:
        return int(torch.cuda.utilization(bench.device))
    except Exception:  # pynvml is missing, or the driver does not answer
        return None
