"""Training that is measured repeatedly: whole, sampling alone, learning alone, and its updates."""

import os
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch

from accel_rl.algos.replay_algorithm import ReplayAlgorithm
from accel_rl.config.resolved import resolve
from accel_rl.config.train import TrainConfig, default_config
from accel_rl.data.rollout import Rollout
from accel_rl.models.precision import multiply_in
from accel_rl.runners.concurrent import Concurrent
from accel_rl.runners.plan import RankPlan
from accel_rl.runners.run_folder import RunFolder
from accel_rl.runners.trainer import Trainer
from accel_rl.samplers.inference.resident import KNOWN
from accel_rl.speed.cuda_graph import WARM_UP
from accel_rl.system.placement import place_processes
from benchmarks.gpu.bench import Bench

GROUPS = 2
FOREVER = 10**9


def envs_near(wanted: int, bench: Bench, concurrent: bool = False) -> int:
    """Return the number of environments nearest to `wanted` that every core steps an equal part of."""
    parts = GROUPS if bench.sizes.in_process else GROUPS * workers(bench, concurrent)
    return max(1, round(wanted / parts)) * parts


def workers(bench: Bench, concurrent: bool = False) -> int:
    return place_processes(device=bench.device, concurrent=concurrent).workers


def settings(bench: Bench, algorithm: str, envs: int, horizon: int | None = None, **algo: Any) -> TrainConfig:
    """Return an algorithm's default settings for a measurement. algo: its settings that differ."""
    base = default_config(algorithm)
    sampler = replace(
        base.sampler,
        envs=envs,
        groups=GROUPS,
        horizon=horizon or base.sampler.horizon,
        decorrelation_steps=bench.sizes.decorrelation_steps,
        engine="in-process" if bench.sizes.in_process else "workers",
    )
    return replace(
        base,
        env=replace(base.env, game=bench.game),
        algo=replace(base.algo, **algo),
        sampler=sampler,
        evaluation=replace(base.evaluation, interval=0),
        env_steps=FOREVER,
        device=bench.device,
    )


def declare_parts(bench: Bench, sampler: Any) -> None:
    """Tell the simulated device that streams use different environments' parts of a rollout's memory."""
    if bench.device.startswith("sim"):
        from tests import simulated_device

        names = ("frames", "final_frames", *KNOWN) if sampler.memory.resident else ("frames", "age")
        simulated_device.in_parts(*(getattr(r, name) for r in sampler.server.rollouts for name in names))


class Again:
    """In place of a sampler: returns one rollout again and again."""

    def __init__(self, rollout: Rollout):
        self._rollout = rollout

    def collect(self, agent: Any) -> Rollout:
        return self._rollout

    def check(self) -> None:
        pass


class Training:
    """A run's trainer, warm: updates have begun and are captured."""

    def __init__(self, bench: Bench, name: str, given: TrainConfig):
        config = resolve(given)
        self.bench, self.config, self.updates_per_s = bench, config, 0.0
        self._cores = os.sched_getaffinity(0)
        folder = RunFolder.create(bench.folder / name.replace(" ", "-"), config)
        self._events = folder.path / "events.log"
        try:
            self.trainer = Trainer(config, RankPlan.resolve(config), folder)
        finally:
            self.placement_cores = os.sched_getaffinity(0)
            os.sched_setaffinity(0, self._cores)
        self.learner, self.schedule, self.sampler = self.trainer.learner, self.trainer.schedule, self.trainer.sampler
        declare_parts(bench, self.sampler)
        self.sampler.start()
        while not self.learner.updates:  # the start of a replay is random play
            self._cycle()
        for _ in range(bench.sizes.warm_cycles):
            self._cycle()
        self._rollout = self.sampler.collect(self.agent)

    @property
    def agent(self) -> Any:
        return self.schedule.behaviour if isinstance(self.schedule, Concurrent) else self.learner.algo.agent

    def _cycle(self) -> int:
        return self.schedule.cycle(FOREVER)[0]

    def _settled(self, work: Callable[[], float], seconds: float, warm_up: int = 0) -> float:
        """Measure with this trainer's affinity, threads and precision. warm_up: calls before."""
        os.sched_setaffinity(0, self.placement_cores)
        multiply_in(self.config.precision, self.bench.device)
        torch.set_num_threads(self.trainer.plan.placement.torch_threads)
        try:
            for _ in range(warm_up):
                work()
            return self.bench.rate(work, seconds)
        finally:
            os.sched_setaffinity(0, self._cores)

    def training(self, seconds: float) -> float:
        """Measure env steps/s of sampling and learning. Sets `updates_per_s`."""
        before, steps = self.learner.updates, 0

        def cycle() -> int:
            nonlocal steps
            steps += (n := self._cycle())
            return n

        rate = self._settled(cycle, seconds, warm_up=1)
        self.updates_per_s = (self.learner.updates - before) * rate / max(1, steps)
        return rate

    def sampling(self, seconds: float) -> float:
        """Measure env steps/s of sampling alone."""
        return self._settled(lambda: self.sampler.collect(self.agent).env_steps, seconds)

    def learning(self, seconds: float) -> float:
        """Measure the env steps/s that learning alone keeps up with. Every cycle gets the same rollout."""
        schedule: Any = self.schedule
        real, schedule.sampler = schedule.sampler, Again(self._rollout)
        try:
            return self._settled(self._cycle, seconds, warm_up=WARM_UP)
        finally:
            schedule.sampler = real

    def updates(self, seconds: float) -> float:
        """Measure updates/s alone."""
        algo = self.learner.algo
        if not isinstance(algo, ReplayAlgorithm):
            algo.ingest(self._rollout)

        def update() -> int:
            if isinstance(algo, ReplayAlgorithm):
                algo.budget.set(self.bench.sizes.at_once)
            return len(self.learner.learn())

        return self._settled(update, seconds, warm_up=WARM_UP + 1)

    def notes(self) -> list[str]:
        """Return the run's events, without their times: what is not captured, and why."""
        if not self._events.exists():
            return []
        lines = (line[20:] for line in self._events.read_text().splitlines())
        return list(dict.fromkeys(line for line in lines if "--no-capture-updates" not in line))

    def close(self) -> None:
        self.schedule.close()
        self.learner.close()
        self.sampler.close()
