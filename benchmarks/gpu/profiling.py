"""Profiles updates and inference: the time of GPU kernels, the fraction of time in which the GPU is busy, and the
host's time. For training cycles (sampling and learning), the host's time is split into waits for workers, serving
actions, copies and learning."""

import contextlib
import time
from collections import Counter, defaultdict
from collections.abc import Callable
from functools import partial
from typing import Any
from unittest import mock

import torch
from torch.autograd import DeviceType

from benchmarks.gpu.bench import Bench, Result
from benchmarks.gpu.training import build, envs_near, q_settings, settings
from benchmarks.harness.measured_training import synchronize
from benchmarks.harness.training import Training

COLUMNS = ("work", "operation", "calls", "us", "share of the wall clock")
TOP = 8


def measure(bench: Bench) -> Result:
    """Profile the updates and the inference of DQN and A2C."""
    result = Result(COLUMNS)
    a2c = settings(bench, "a2c", envs_near(bench.sizes.policy_envs, bench))
    configs = {f"DQN-{dict(bench.sizes.batches)['dqn']}": q_settings(bench, "dqn"), "A2C": a2c}
    for name, config in configs.items():
        with contextlib.closing(build(bench, f"profile {name}", config)) as run:
            updates, groups = run.update(), run.sampler.T * run.sampler.grouping.groups
            _profile(bench, f"{name}, an update", run.update, updates, result)
            _profile(bench, f"{name}, a served group", partial(run.sampler.collect, run.agent), groups, result)
            _split(bench, f"{name}, a cycle", run, result)
            result.notes += run.notes()
    return result


def _split(bench: Bench, what: str, run: Training, result: Result) -> None:
    """Add the host's time in each part of a training cycle to `result`. Serving includes the wait for actions, which
    the GPU computes after the last update."""
    sampler, learner, calls = run.sampler, run.learner, Counter[str]()
    seconds: defaultdict[str, float] = defaultdict(float)
    parts = {
        "wait for environments": (sampler.engine, "wait"), "serve": (sampler.server, "serve"),
        "begin a rollout": (sampler.server, "begin"), "finish a rollout": (sampler.server, "finish"),
        "count episodes": (sampler.episodes, "add"), "ingest": (learner, "ingest"), "learn": (learner, "learn"),
    }  # fmt: skip

    def timed(part: str, call: Callable[..., Any]) -> Callable[..., Any]:
        def measured(*args: Any, **kwargs: Any) -> Any:
            begin = time.perf_counter()
            try:
                return call(*args, **kwargs)
            finally:
                seconds[part] += time.perf_counter() - begin
                calls[part] += 1

        return measured

    with contextlib.ExitStack() as patches:
        for part, (owner, method) in parts.items():
            call = timed(part, getattr(owner, method))
            patches.enter_context(mock.patch.object(owner, method, call))
        begin = time.perf_counter()
        run.training(2 * bench.sizes.shortest)
        wall = time.perf_counter() - begin
    seconds["rest"] = wall - sum(seconds.values())
    n = calls["finish a rollout"]
    result.rows += [[what, part, n, s / n * 1e6, s / wall] for part, s in [("all", wall), *seconds.items()]]


def _profile(bench: Bench, what: str, call: Callable[[], object], of_call: int, result: Result) -> None:
    """Profile the function `call`, a call of which makes `of_call` updates or inference steps, and add the times to
    `result`."""
    calls, on_cuda = -(-bench.sizes.profiled // of_call), bench.device.startswith("cuda")
    n = calls * of_call

    def work() -> tuple[float, float]:
        """Return the seconds until the host has queued all operations, and the seconds until the device has completed
        them."""
        synchronize(bench.device)
        begin = time.perf_counter()
        for _ in range(calls):
            call()
        host = time.perf_counter() - begin
        synchronize(bench.device)
        return host, time.perf_counter() - begin

    work()
    host, wall = work()
    activities = [torch.profiler.ProfilerActivity.CPU]
    activities += [torch.profiler.ProfilerActivity.CUDA] if on_cuda else []
    with torch.profiler.profile(activities=activities) as profile:
        _, profiled = work()
    result.rows.append([what, "all, without the profiler", n, wall / n * 1e6, 1.0])
    result.rows.append([what, "the host's part", n, host / n * 1e6, host / wall])
    events = [e for e in profile.events() if e.device_type == DeviceType.CUDA] if on_cuda else profile.events()
    busy = covered([(e.time_range.start, e.time_range.end) for e in events]) if on_cuda else 0.0
    if on_cuda:
        result.rows.append([what, "GPU busy, with the profiler", n, busy / n, busy / 1e6 / profiled])
    else:
        result.notes.append(f"{what}: no GPU kernels on {bench.device}; the longest operations of the host instead")
    result.rows += [[what, name, k, us / n, us / 1e6 / profiled] for name, k, us in _longest(events)]


def _longest(events: Any) -> list[tuple[str, int, float]]:
    """Return (name, calls, microseconds) of the operations that take most time, without the time of nested
    operations."""
    seconds_by_name: dict[str, list[float]] = {}
    for e in events:
        on_gpu = e.device_type == DeviceType.CUDA
        seconds_by_name.setdefault(e.name, []).append(e.time_range.elapsed_us() if on_gpu else e.self_cpu_time_total)
    longest = sorted(seconds_by_name.items(), key=lambda item: -sum(item[1]))[:TOP]
    return [(name[:80].replace("|", "/"), len(us), sum(us)) for name, us in longest]


def covered(spans: list[tuple[float, float]]) -> float:
    """Return the total time that time intervals cover, which may overlap."""
    total, end = 0.0, float("-inf")
    for begin, stop in sorted(spans):
        total += max(0.0, stop - max(begin, end))
        end = max(end, stop)
    return total
