"""Which environments are whose, by machine and setting."""

import pytest

from accel_rl.config.settings import SamplerConfig, TrainConfig
from accel_rl.envs.make import EnvConfig
from accel_rl.runners.build import plan
from accel_rl.system import hardware


@pytest.mark.parametrize(
    ("cores", "sampler", "backend", "schedule", "want"),
    [  # groups, whether each has its own workers, workers
        (4, SamplerConfig(envs=64), "emulator", "lockstep", (2, True, 4)),
        (2, SamplerConfig(envs=32), "emulator", "lockstep", (2, True, 2)),
        (2, SamplerConfig(envs=30), "emulator", "lockstep", (2, True, 2)),
        (2, SamplerConfig(envs=6), "emulator", "lockstep", (1, False, 2)),  # too few for two threads
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
def test_groups(monkeypatch, cores, sampler, backend, schedule, want):
    monkeypatch.setattr(hardware, "allowed_cores", lambda: list(range(cores)))
    monkeypatch.setattr(hardware, "cgroup_cpus", lambda: None)
    config = TrainConfig(
        algorithm="dqn", env=EnvConfig(game="pong", backend=backend), sampler=sampler, schedule=schedule
    )
    placement, grouping = plan(config, "cpu")
    assert (grouping.groups, grouping.dedicated_workers, grouping.workers) == want
    assert placement.workers == grouping.workers
