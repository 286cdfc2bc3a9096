"""Placement of a run's processes and environments, by machine and settings."""

import dataclasses
import json
from dataclasses import replace

import pytest

from accel_rl.distributed.distributed_config import DistributedConfig
from accel_rl.envs.make import EnvConfig
from accel_rl.machine import hardware
from accel_rl.planning.plan import RankPlan, RunPlan
from accel_rl.settings.resolved import Resolved, fill_in
from accel_rl.settings.sampler_config import SamplerConfig
from accel_rl.settings.train import default_config


@pytest.fixture
def machine(monkeypatch):
    """machine(n) fakes a machine with n cores and no GPU."""

    def make(cores: int) -> None:
        monkeypatch.setattr(hardware, "allowed_cores", lambda: list(range(cores)))
        monkeypatch.setattr(hardware, "cgroup_cpus", lambda: None)
        monkeypatch.setattr(hardware, "gpu_count", lambda: 0)

    return make


def config_of(backend: str = "emulator", **changes) -> Resolved:
    return fill_in(replace(default_config("dqn"), env=EnvConfig(game="pong", backend=backend), **changes))


@pytest.mark.parametrize(
    ("cores", "sampler", "backend", "schedule", "want"),
    [  # `want` is (groups, whether each group has its own workers, workers).
        (4, SamplerConfig(envs=64), "emulator", "lockstep", (2, True, 4)),
        (2, SamplerConfig(envs=32), "emulator", "lockstep", (2, True, 2)),
        (2, SamplerConfig(envs=30), "emulator", "lockstep", (2, True, 2)),
        (2, SamplerConfig(envs=6), "emulator", "lockstep", (1, False, 2)),  # 6 environments are too few for two groups.
        (1, SamplerConfig(envs=64), "emulator", "lockstep", (1, False, 1)),
        (3, SamplerConfig(envs=48), "emulator", "lockstep", (1, False, 3)),  # no halves
        (4, SamplerConfig(envs=64, groups=4), "emulator", "lockstep", (4, True, 4)),
        (4, SamplerConfig(envs=64, groups=1), "emulator", "lockstep", (1, False, 4)),
        (4, SamplerConfig(envs=66, groups=3, workers=2), "emulator", "lockstep", (3, False, 2)),
        (4, SamplerConfig(envs=64, inference_per_worker=True), "emulator", "lockstep", (4, True, 4)),
        (4, SamplerConfig(envs=64), "ale", "lockstep", (2, True, 4)),
        (4, SamplerConfig(envs=64), "emulator", "concurrent", (1, False, 2)),
    ],
)
def test_groups(machine, cores, sampler, backend, schedule, want):
    machine(cores)
    plan = RankPlan.resolve(config_of(backend, sampler=sampler, schedule=schedule), device="cpu")
    grouping = plan.sampler.grouping
    assert (grouping.groups, grouping.dedicated_workers, grouping.workers) == want
    assert plan.placement.workers == grouping.workers == len(plan.sampler.worker_cores)
    threaded = grouping.dedicated_workers and not sampler.inference_per_worker
    assert plan.sampler.threaded_inference == threaded


def test_groups_with_dedicated_workers_infer_in_threads_on_the_cores_of_these(machine):
    machine(4)
    plan = RankPlan.resolve(config_of(sampler=SamplerConfig(envs=64)))
    assert plan.sampler.inference_cores == ((0, 1), (2, 3))
    assert plan.sampler.act_threads == 2 and plan.placement.torch_threads == 4


def test_an_evaluation_has_one_server(machine):
    """One thread acts for both groups of 3 environments. Each of 3 workers steps one environment per group."""
    machine(4)
    plan = RankPlan.resolve(config_of("ale", sampler=SamplerConfig(envs=64)))
    sampler = plan.evaluation(6, 16)
    assert (sampler.T, sampler.grouping.B, sampler.grouping.groups, sampler.grouping.workers) == (16, 6, 2, 3)
    assert (
        sampler.worker_cores == (0, 1, 2) and not sampler.threaded_inference and not sampler.grouping.dedicated_workers
    )
    assert plan.evaluation(5, 16).grouping.groups == 1


def test_the_engine_in_this_process_has_no_threads_of_its_own(machine):
    machine(4)
    sampler = RankPlan.resolve(config_of(sampler=SamplerConfig(envs=64, engine="in-process"))).sampler
    assert sampler.in_process and not sampler.threaded_inference and not sampler.act_cores


def test_ranks_divide_cores_and_environments(machine):
    machine(4)
    config = replace(default_config("a2c"), env=EnvConfig(game="pong", backend="ale"))
    config = fill_in(replace(config, distributed=DistributedConfig(ranks=2)))
    plan = RunPlan.resolve(config)
    assert [(r.rank, r.size, r.device, r.sampler.grouping.B) for r in plan.ranks] == [
        (0, 2, "cpu", 8),
        (1, 2, "cpu", 8),
    ]
    assert [r.sampler.worker_cores for r in plan.ranks] == [(0, 1), (2, 3)]


def test_a_plan_is_immutable_and_goes_to_a_process_as_json(machine):
    machine(4)
    for sampler in (SamplerConfig(envs=64), SamplerConfig(envs=64, groups=1)):
        plan = RankPlan.resolve(config_of(sampler=sampler))
        assert RankPlan.from_dict(json.loads(json.dumps(plan.to_dict()))) == plan
        with pytest.raises(dataclasses.FrozenInstanceError):
            plan.rank = 1
    hash(plan)


def test_lines(machine):
    machine(4)
    plan = RunPlan.resolve(config_of(sampler=SamplerConfig(envs=64, horizon=5)))
    assert plan.lines() == [
        "rank 0 of 1 on cpu",
        "B = 64 environments in 2 groups, T = 5 steps",
        "4 workers on cores 0 1 2 3, each dedicated to one group",
        "inference: one thread per group on cores 0 1 2 3, 2 threads an operation",
        "learner: on cores 0 1 2 3, 4 threads an operation",
    ]
