"""Measures the speed of a sampler, with different agents."""

import time
from dataclasses import replace
from typing import Any

import numpy as np
import psutil
import torch

from accel_rl.agents.agent import Agent
from accel_rl.envs.sequential import RESETS
from accel_rl.machine.placement import Placement
from accel_rl.models.precision import Precision, autocast_for
from accel_rl.planning.plan import RankPlan, default_workers
from accel_rl.processes import process
from accel_rl.samplers.memory_budget import bound
from accel_rl.samplers.workers.pool import WorkerPool
from accel_rl.settings.resolved import resolve
from accel_rl.settings.sampler_config import SamplerConfig
from accel_rl.settings.train import TrainConfig, default_config
from accel_rl.training.build import build_sampler
from benchmarks.harness.measured_training import rate
from benchmarks.harness.program import one_of

MIB = 2**20


def sampling_config(
    game: str,
    envs_per_worker: int,
    workers: int | None = None,
    *,
    reset: Any = "immediate",
    frame: str = "104x80",
    backend: str = "auto",
    device: str = "cpu",
    **sampler: Any,
) -> TrainConfig:
    """Return A2C's settings, with the given changes of the sampler's settings. If `workers` is None, each usable core
    gets one worker process. Raises ConfigError for an unknown value of --sampler.reset."""
    one_of("reset", [reset], RESETS)
    base, n = default_config("a2c"), workers or default_workers(device)
    defaults: dict[str, Any] = {"horizon": 20, "decorrelation_steps": 300, "timeout_s": 60.0}
    config = SamplerConfig(workers=n, envs=n * envs_per_worker, reset=reset, **defaults | sampler)
    env = replace(base.env, game=game, frame=frame, backend=backend)
    return replace(base, env=env, sampler=config, device=device)


def cores_of(placement: Placement) -> list[int]:
    """Return all cores that a sampler's worker processes and inference use."""
    return sorted({c for c in placement.worker_cores if c is not None} | set(placement.server_cores))


def declare_parts(device: str, sampler: Any) -> None:
    """Declare to the simulated GPU which tensors of rollouts are divided among the streams of several groups."""
    if device.startswith("sim"):
        from accel_rl.samplers.inference.resident import KNOWN
        from tests import simulated_device

        names = ("frames", "final_frames", *KNOWN) if sampler.memory.resident else ("frames", "age")
        simulated_device.in_parts(*(getattr(r, name) for r in sampler.server.rollouts for name in names))


class Sampling:
    """A sampler whose speed is measured."""

    def __init__(self, given: TrainConfig):
        self.config = config = resolve(given)
        self.plan = RankPlan.resolve(config)
        self.placement, self.grouping = self.plan.placement, self.plan.sampler.grouping
        process.tune_torch(self.placement.torch_threads)
        self.spec = config.spec
        self.sampler: Any = build_sampler(self.plan.sampler, config.env, self.spec, config, seed=0, training=True)
        declare_parts(self.plan.device, self.sampler)
        self.busy = 0.0
        """In the last measurement by `free`, the share of their time that worker processes spent in environments."""

    def collect(self, agent: Agent, rollouts: int = 1) -> None:
        """Collect rollouts before a measurement."""
        for _ in range(rollouts):
            self.sampler.collect(agent)

    def rate(self, agent: Agent, seconds: float, warm_up: int = 0) -> float:
        """Measure env steps/s of sampling in which all worker processes wait at the end of each rollout, as before an
        update."""
        self.collect(agent, warm_up)
        return rate(lambda: self.sampler.collect(agent).env_steps, seconds, self.plan.device)

    def free(self, agent: Agent, seconds: float) -> float:
        """Measure env steps/s of sampling without pauses between rollouts. Steps that --sampler.reset wait skips do not
        count."""
        pool, n = self.sampler.engine, 0
        assert isinstance(pool, WorkerPool)
        before, begin = sum(pool.env_seconds()), time.perf_counter()
        for rollout in self.sampler.rollouts(agent, fixed=True):
            n += int(np.count_nonzero(rollout.valid.cpu().numpy()))
            if (took := time.perf_counter() - begin) >= seconds:
                self.busy = (sum(pool.env_seconds()) - before) / took / self.grouping.workers
                break  # Env steps after the measured time are not counted.
        return n / took

    def memory(self) -> tuple[float, float]:
        """Return the private memory of all worker processes and the shared memory of the rollouts, in MiB."""
        pool = self.sampler.engine
        arrays = [getattr(buffer, name) for buffer in pool.buffers for name in buffer.__slots__ if name != "stack"]
        private = sum(psutil.Process(pid).memory_full_info().uss for pid in pool.pids())
        return private / MIB, sum(array.nbytes for array in arrays) / MIB

    def memory_bound(self) -> float:
        """Return the upper bound of the memory of worker processes and rollouts, in MiB."""
        limit = bound(self.spec, self.sampler.T, self.config.sampler.reset)
        return limit.total(self.grouping.B, self.grouping.workers) / MIB

    def close(self) -> None:
        self.sampler.close()


class Inference:
    """Measures inference without sampling, with 1 or `threads` torch threads, whichever is faster. A batch contains the
    observations of one group of environments, or of all groups if each group has its own inference thread."""

    def __init__(self, sampler: Any, agent: Agent, threads: int, precision: Precision = "float32"):
        self._agent, self._precision, self._restored = agent, precision, threads
        b = slice(0, sampler.B) if sampler.grouping.dedicated_workers else sampler.grouping.group(0)
        self._obs = sampler.server.rollouts[0].observations(0, b=b)
        self._uniform = torch.rand(len(self._obs), device=self._obs.device)
        rates = {n: self._rate(0.2, n) for n in (1, threads, 1, threads)}
        self._threads = max(rates, key=lambda n: rates[n])

    def rate(self, seconds: float) -> float:
        """Measure observations/s."""
        return self._rate(seconds, self._threads)

    def _rate(self, seconds: float, threads: int) -> float:
        torch.set_num_threads(threads)
        with autocast_for(self._precision, self._obs.device):
            rates = rate(self._act, seconds)
        torch.set_num_threads(self._restored)
        return rates

    def _act(self) -> int:
        self._agent.act(self._obs, self._uniform)[0].cpu()
        return len(self._obs)
