"""Memory of a running sampler, compared with the bound of its memory budget."""

from dataclasses import asdict
from typing import Any

import psutil

from accel_rl.samplers.memory_budget import bound
from accel_rl.samplers.workers.pool import WorkerPool
from benchmarks.ours import Ours

MIB = 2**20


def of(ours: Ours) -> dict[str, Any]:
    """Measure bytes: private memory of all workers, shared memory of the rollouts, and the bound of both."""
    pool, setting = ours.sampler.engine, ours.setting
    assert isinstance(pool, WorkerPool)
    private = sum(psutil.Process(pid).memory_full_info().uss for pid in pool.pids())
    limit = bound(ours.spec, setting.horizon, setting.reset)
    return {
        "private": private,
        "shared": sum(array.nbytes for buffer in ours.sampler.engine.buffers for array in arrays(buffer)),
        "environments": ours.grouping.B,
        "bound": {**asdict(limit), "total": limit.total(ours.grouping.B, ours.grouping.workers)},
    }


def arrays(buffer: Any) -> list[Any]:
    return [getattr(buffer, name) for name in buffer.__slots__ if name != "stack"]


def lines(m: dict[str, Any]) -> list[str]:
    B, limit = m["environments"], m["bound"]
    return [
        f"memory: {m['private'] / B / MIB:.2f} MiB an environment in its worker, the worker's own included, and "
        f"{m['shared'] / B / MIB:.2f} MiB shared; {(m['private'] + m['shared']) / MIB:,.0f} MiB in all, bound "
        f"{limit['total'] / MIB:,.0f}"
    ]
