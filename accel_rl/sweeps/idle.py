"""`accel-rl sweep EXPERIMENT --idle`: run a sweep in the machine's idle time, only while no other program needs the
cores."""

import os
from dataclasses import replace

from accel_rl.settings.train import TrainConfig
from accel_rl.text.notes import say_once

TIMEOUT_S = 3600.0
"""With --idle, timeouts of worker processes and ranks are at least `TIMEOUT_S` seconds, because other programs may use
all cores for minutes."""


def patient(config: TrainConfig) -> TrainConfig:
    """Return a run's settings with timeouts of at least TIMEOUT_S seconds, because its processes may get no CPU time
    for minutes."""
    sampler = replace(config.sampler, timeout_s=max(config.sampler.timeout_s, TIMEOUT_S))
    distributed = replace(config.distributed, timeout_s=max(config.distributed.timeout_s, TIMEOUT_S))
    return replace(config, sampler=sampler, distributed=distributed)


def use_idle_time() -> None:
    """Put this process and its future child processes into the idle scheduling class. If the system has no idle
    scheduling class, set the nice value 19."""
    if hasattr(os, "SCHED_IDLE"):
        os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
        return
    os.nice(19)
    say_once("--idle: this system has no idle scheduling class, so the runs have the lowest priority (nice 19)")
