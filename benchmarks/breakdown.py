"""Breakdown of the core time of an environment step, from the processes' CPU clocks.

    total        cores x seconds / env steps, over all cores that the sampler uses
    emulation    CPU time of environment_only, an agent step: emulation, screen reads, preprocessing
    worker       CPU time of the workers in user space beyond that: Python between emulations, additional resets
    wake-ups     CPU time in the kernel, workers and server: polling and signalling event descriptors
    inference    CPU time of inference_only, an observation
    copy         CPU time of assembling the frame stacks of a group, an observation
    server       CPU time of the main process beyond those: Python of the action server, waiting torch threads
    idle         the rest: cores without work, or taken by other processes or guests of a virtual machine

Parts that are differences of measurements can be slightly below zero.
"""

import os
import time
from dataclasses import asdict, dataclass

import psutil
import torch

from accel_rl.agents.agent import Agent
from accel_rl.samplers.sampler import Sampler

US = 1e6
PARTS = ("emulation", "worker", "wake-ups", "inference", "copy", "server", "idle")


def best_threads(sampler: Sampler, agent: Agent, threads: int, seconds: float = 0.5) -> int:
    """Choose 1 or `threads` torch threads, whichever makes inference alone faster, so that the bound is not too low."""
    rates = {n: per_observation(sampler, agent, seconds, n)[0] for n in (1, threads, 1, threads)}
    return max(rates, key=lambda n: rates[n])


@dataclass(frozen=True)
class CpuTime:
    """CPU seconds used so far by the workers and by this process."""

    workers_user: float
    workers_kernel: float
    server_user: float
    server_kernel: float

    @classmethod
    def now(cls, pids: list[int]) -> "CpuTime":
        workers = [psutil.Process(pid).cpu_times() for pid in pids]
        own = os.times()
        return cls(sum(w.user for w in workers), sum(w.system for w in workers), own.user, own.system)

    def since(self, before: "CpuTime") -> "CpuTime":
        return CpuTime(*(a - b for a, b in zip(asdict(self).values(), asdict(before).values(), strict=True)))

    def plus(self, other: "CpuTime") -> "CpuTime":
        return CpuTime(*(a + b for a, b in zip(asdict(self).values(), asdict(other).values(), strict=True)))


def per_observation(sampler: Sampler, agent: Agent | None, seconds: float, threads: int) -> tuple[float, float]:
    """Measure (observations/s, CPU microseconds per observation) of inference.

    The batch is that of one group, or of all groups if each has a thread. agent None: measure only the gathering of
    stacks and the writing of actions.
    """
    server, b = sampler.server, slice(0, sampler.B) if sampler.grouping.dedicated_workers else sampler.grouping.group(0)
    rollout, host = server.rollouts[0], server.host[0]
    obs = rollout.observations(0, b=b)
    uniform = torch.rand(len(obs), device=obs.device)
    action = torch.zeros(len(obs), dtype=torch.int64)
    torch.set_num_threads(threads)
    n, begin, cpu = 0, time.perf_counter(), time.process_time()
    while (took := time.perf_counter() - begin) < seconds:
        if agent is not None:
            agent.act(obs, uniform)[0].cpu()
        else:
            rollout.observations(0, b=b)
            host.action[0, b] = action
        n += len(obs)
    return n / took, (time.process_time() - cpu) / n * US


def breakdown(
    *,
    cores: int,
    rate: float,
    steps: int,
    cpu: CpuTime,
    emulation_us: float,
    ale_act_us: float,
    inference_us: float,
    copy_us: float,
) -> dict[str, float]:
    """Return the microseconds of core time per env step, by part.

    rate: env steps/s of the sampler. cpu: CPU time of `steps` of its steps. The others are CPU microseconds a step,
    measured separately. `overhead` is all that is neither emulation nor inference; `overhead_busy` excludes idle time.
    """
    each = {k: v / steps * US for k, v in asdict(cpu).items()}
    total = cores / rate * US
    parts = {
        "emulation": emulation_us,
        "worker": each["workers_user"] - emulation_us,
        "wake-ups": each["workers_kernel"] + each["server_kernel"],
        "inference": inference_us,
        "copy": copy_us,
        "server": each["server_user"] - inference_us - copy_us,
        "idle": total - sum(each.values()),
    }
    overhead = total - emulation_us - inference_us
    return {"total": total, "ale_act_only": ale_act_us, **parts, "overhead": overhead,
            "overhead_busy": overhead - parts["idle"]}  # fmt: skip


def lines(b: dict[str, float]) -> list[str]:
    """Format the parts as lines."""
    parts = "  ".join(f"{name} {b[name]:,.1f}" for name in PARTS)
    return [
        f"core time of an env step, us: {b['total']:,.1f} = {parts}",
        f"  (ale act only {b['ale_act_only']:,.1f}); sampler overhead, all but emulation and inference: "
        f"{b['overhead']:,.1f} with idle time, {b['overhead_busy']:,.1f} without",
    ]
