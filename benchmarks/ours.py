"""The sampler of accel_rl in benchmarks."""

import time
from dataclasses import asdict, dataclass, replace

import numpy as np

from accel_rl.agents.agent import Agent
from accel_rl.config.resolved import Resolved, fill_in, resolve
from accel_rl.config.sampler import SamplerConfig
from accel_rl.config.train import default_config
from accel_rl.data.spec import EnvSpec
from accel_rl.envs.make import EnvConfig, ResolvedEnv, resolve_env
from accel_rl.envs.sequential import RESETS
from accel_rl.runners.build import build_sampler
from accel_rl.runners.plan import RankPlan, default_workers
from accel_rl.samplers.sampler import Sampler
from accel_rl.samplers.workers.pool import WorkerPool
from accel_rl.system import process
from accel_rl.system.errors import ConfigError, nearest
from accel_rl.system.placement import Placement
from benchmarks.breakdown import CpuTime


@dataclass(frozen=True)
class Setting:
    """Settings of one sampler. workers None: one per usable core."""

    game: str
    envs_per_worker: int
    workers: int | None = None
    groups: int | None = None
    horizon: int = 20
    reset: str = "immediate"
    frame: str = "104x80"
    device: str = "cpu"
    decorrelation_steps: int = 300
    timeout_s: float = 60.0
    backend: str = "auto"
    together: bool = False
    """Groups wait for each other at the end of a rollout, as before an update."""

    def env(self) -> ResolvedEnv:
        return resolve_env(EnvConfig(game=self.game, frame=self.frame, backend=self.backend))

    def plan(self) -> RankPlan:
        return RankPlan.resolve(self.config())

    def config(self) -> Resolved:
        workers = self.workers or default_workers(self.device)
        sampler = SamplerConfig(
            workers=workers,
            envs=workers * self.envs_per_worker,
            horizon=self.horizon,
            groups=self.groups,
            reset=self.reset,  # type: ignore[arg-type]
            decorrelation_steps=self.decorrelation_steps,
            timeout_s=self.timeout_s,
        )
        return fill_in(replace(default_config("a2c"), env=self.env(), sampler=sampler, device=self.device))

    def check(self) -> None:
        """Raise ConfigError, one line, for a setting that cannot be measured. Starts nothing."""
        if self.reset not in RESETS:
            raise ConfigError(f"--reset {self.reset}: must be one of {', '.join(RESETS)}{nearest(self.reset, RESETS)}")
        resolve(self.config())


def cores_of(placement: Placement) -> list[int]:
    """Every core that a sampler uses, for workers or inference."""
    return sorted({c for c in placement.worker_cores if c is not None} | set(placement.server_cores))


class Ours:
    """A sampler that can be measured repeatedly, with different agents."""

    name = "accel_rl"

    def __init__(self, setting: Setting):
        setting.check()
        self.setting, plan = setting, setting.plan()
        self.placement, self.grouping = plan.placement, plan.sampler.grouping
        process.tune_torch(self.placement.torch_threads)
        self.spec: EnvSpec = setting.config().spec
        self.sampler: Sampler = build_sampler(
            plan.sampler, setting.env(), self.spec, setting.config(),
            seed=0, training=True,
        )  # fmt: skip
        self.busy = 0.0  # share of the workers' time that environments took, in the last measurement
        self.steps = 0  # env steps of the measurements since `reset_clocks`, and the CPU time they took
        self.cpu = CpuTime(0.0, 0.0, 0.0, 0.0)

    def warm_up(self, agent: Agent) -> None:
        """Start the workers and touch the buffers."""
        self.sampler.collect(agent)

    def measure(self, seconds: float, agent: Agent) -> float:
        """Measure env steps/s; skipped steps do not count."""
        pool, n = self.sampler.engine, 0
        assert isinstance(pool, WorkerPool)
        before, cpu, begin = sum(pool.env_seconds()), CpuTime.now(pool.pids()), time.perf_counter()
        for rollout in self.sampler.rollouts(agent, fixed=not self.setting.together):
            n += int(np.count_nonzero(rollout.valid.cpu().numpy()))
            if (took := time.perf_counter() - begin) >= seconds:
                busy, used = sum(pool.env_seconds()) - before, CpuTime.now(pool.pids()).since(cpu)
                break  # steps after this rollout do not count
        self.busy, self.cpu = busy / took / self.grouping.workers, used.plus(self.cpu)
        self.steps += n
        return n / took

    def reset_clocks(self) -> None:
        self.steps, self.cpu = 0, CpuTime(0.0, 0.0, 0.0, 0.0)

    def describe(self) -> dict:
        return {
            **asdict(self.setting),
            "groups": self.grouping.groups,
            "B": self.grouping.B,
            "workers": self.placement.workers,
        }

    def close(self) -> None:
        self.sampler.close()
