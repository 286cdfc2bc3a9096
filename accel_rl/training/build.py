"""Builds a sampler from a configuration and a plan."""

from typing import Any

import numpy as np

from accel_rl.data.spec import EnvSpec
from accel_rl.envs.make import ResolvedEnv, inexact_reset
from accel_rl.planning.plan import SamplerPlan
from accel_rl.samplers.engine import Engine, EngineSetup
from accel_rl.samplers.inference.threads import InferenceThreads
from accel_rl.samplers.rollout_sampler import RolloutSampler
from accel_rl.samplers.sampler import EnvShare, Sampler
from accel_rl.samplers.workers.pool import PoolConfig, WorkerPool
from accel_rl.settings.doors import find_engine
from accel_rl.settings.resolved import Resolved
from accel_rl.speed.captured_acting import CapturedActing
from accel_rl.text.notes import say_once

# Worker processes on the action server's cores have a lower priority, because all workers wait for the server.
# With a nice value above 10, other programs at nice 0 would starve the workers.
NICE_BESIDE_SERVER = 10


def build_sampler(
    plan: SamplerPlan,
    env: ResolvedEnv,
    spec: EnvSpec,
    config: Resolved,
    *,
    seed: int,
    training: bool,
) -> RolloutSampler:
    s, grouping = config.sampler, plan.grouping
    reset = s.reset if training else "immediate"
    if (why := inexact_reset(env, reset)) is not None:
        say_once(f"--sampler.reset {reset}: {why}, so its episodes are not exactly those of ale-py")
    decorrelation = s.decorrelation_steps if training else 0
    starts_file = "" if training else config.evaluation.starts_file
    first_index = s.first_env if training else 0
    action_seed, columns = seed, None
    if training and config.distributed.shares_batches:
        # The ranks draw the random numbers of all environments, so that actions do not depend on the number of ranks.
        columns = EnvShare(first_index, s.run_envs)
    elif first_index:
        action_seed = int(np.random.SeedSequence(seed, spawn_key=(first_index,)).generate_state(1)[0])
    inference: dict[str, Any] = {
        "act_threads": plan.act_threads,
        "precision": config.precision if training else "float32",
        "window": config.window,
        "games": len(env.games) or 1,
        "first_game": first_index,
        "acceleration": CapturedActing(s.capture),
    }
    setup = EngineSetup(
        env, spec, grouping, plan.T, seed, training, reset, decorrelation, first_index, plan.buffers, starts_file
    )
    engine, memory = build_engine(plan, setup, config), None
    if plan.on_device:
        from accel_rl.samplers.device_engine import DeviceEngine

        assert isinstance(engine, DeviceEngine)
        memory = engine.memory
    threads = None
    if plan.threaded_inference:
        assert isinstance(engine, WorkerPool)
        threads = InferenceThreads(engine, plan.inference_cores, plan.act_threads)
    return Sampler(
        engine, spec, action_seed, reset=reset, device=plan.device, act_cores=plan.act_cores,
        partial_starts=decorrelation > 0, share=columns, threads=threads, memory=memory, **inference,
    )  # fmt: skip


def build_engine(plan: SamplerPlan, setup: EngineSetup, config: Resolved) -> Engine:
    """Worker processes, this process, the device, or a user's engine."""
    if plan.has_workers:
        pool = PoolConfig(
            cores=plan.worker_cores,
            strict=config.strict,
            timeout_s=config.sampler.timeout_s,
            on_error=config.sampler.on_error,
            start_timeout_s=config.sampler.start_timeout_s,
            nice=NICE_BESIDE_SERVER if plan.shares_cores else 0,
            spins=0 if plan.shares_cores else 200,
        )
        return WorkerPool(setup, pool)
    if plan.on_device:
        from accel_rl.samplers.device_engine import DeviceEngine, make_device_game

        return DeviceEngine(setup, make_device_game(setup.env, setup.training, setup.reset == "cached", plan.device))
    return find_engine(plan.engine)(setup)
