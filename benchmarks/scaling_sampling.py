"""Table 1 of `benchmarks.scaling`: sampling on several ranks, with and without a barrier across them.

`python -m benchmarks.scaling_sampling SETUP_JSON` is one rank; it prints its env steps/s.
"""

import json
import os
import subprocess
import sys
import time
from dataclasses import replace
from typing import Any

from accel_rl.distributed.process_group import file_store
from accel_rl.system import child, hardware
from accel_rl.system.errors import RunError
from accel_rl.system.process import before_torch, die_with_parent, tune_torch
from benchmarks.scaling_settings import Options


def sample(o: Options, simulators: int, ranks: int, sync: bool) -> dict[str, float]:
    """Sample on several ranks; returns env steps/s of all ranks together."""
    fd = os.memfd_create("store")
    setup = {"game": o.game, "envs": simulators // ranks, "ranks": ranks, "sync": sync, "seconds": o.seconds,
             "gpus": o.gpus, "fd": fd, "parent": os.getpid()}  # fmt: skip
    processes = [
        subprocess.Popen(
            child.command("benchmarks.scaling_sampling", json.dumps({**setup, "rank": r})),
            env=child.environment(packages=["benchmarks"]),
            pass_fds=(fd,),
            stdout=subprocess.PIPE,
        )
        for r in range(ranks)
    ]
    try:
        ends = [p.communicate(timeout=o.patience + o.seconds)[0] for p in processes]
        if any(p.returncode for p in processes):
            raise RunError(f"{simulators} simulators on {ranks} ranks: exit codes {[p.returncode for p in processes]}")
    except subprocess.TimeoutExpired as e:
        raise RunError(f"{simulators} simulators on {ranks} ranks: more than {o.patience:g} s") from e
    finally:
        for p in processes:
            p.kill()
        os.close(fd)
    return {"steps_per_s": sum(float(e.decode().split()[-1]) for e in ends)}


def sampling_rank(setup: dict[str, Any]) -> None:
    """One rank of Table 1: collect rollouts of five steps, and print the rate."""
    from accel_rl.config.resolved import fill_in
    from accel_rl.config.train import default_config
    from accel_rl.runners.build import build_sampler
    from accel_rl.runners.learner import Learner
    from accel_rl.runners.plan import RankPlan
    from accel_rl.runners.ranks.rank_config import rank_config
    from accel_rl.runners.ranks.sync_context import join_ranks

    die_with_parent(setup["parent"])
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    r, size = setup["rank"], setup["ranks"]
    base = default_config("a2c")
    group = replace(base.distributed, ranks=size, gpus=setup["gpus"])
    sampler = replace(base.sampler, envs=setup["envs"] * size, decorrelation_steps=30)
    config = fill_in(replace(base, env=replace(base.env, game=setup["game"]), distributed=group, sampler=sampler))
    mine = rank_config(config, r)
    plan = RankPlan.resolve(mine, r, size)
    tune_torch(plan.placement.torch_threads)
    hardware.pin(plan.placement.server_cores)
    spec = mine.spec
    agent = Learner(mine, spec, plan.device, 0).algo.agent
    first = r * mine.sampler.envs
    source = build_sampler(replace(plan.sampler, T=5), mine.env, spec, mine, seed=0, training=True, first_index=first)
    with join_ranks(mine, plan.device, file_store(setup["fd"], size), r, size, size) as context:
        for _ in range(4):
            source.collect(agent)
        context.clock.stops(False)
        n, began = 0, time.perf_counter()
        while True:
            n += int(source.collect(agent).valid.sum())
            over = time.perf_counter() - began > setup["seconds"]
            if context.clock.stops(over) if setup["sync"] else over:
                break
        rate = n / (time.perf_counter() - began)
        source.close()
        context.clock.stops(False)
    print(rate)


if __name__ == "__main__":
    before_torch()
    sampling_rank(json.loads(sys.argv[1]))
