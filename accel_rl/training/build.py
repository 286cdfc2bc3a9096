"""Builds a sampler from a configuration and a plan."""

from functools import partial

import numpy as np
import torch

from accel_rl.data.spec import EnvSpec
from accel_rl.envs.make import ResolvedEnv, inexact_reset
from accel_rl.planning.plan import SamplerPlan
from accel_rl.samplers.engine import Engine, EngineSetup
from accel_rl.samplers.inference.inference import PLAIN
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
    plan: SamplerPlan, env: ResolvedEnv, spec: EnvSpec, config: Resolved, *, seed: int, training: bool
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
        engine, spec, action_seed, reset=reset, device=plan.device, act_threads=plan.act_threads,
        act_cores=plan.act_cores, precision=config.precision if training else "float32",
        # A user's vector environment on the device cannot be captured, so its steps are launched from Python.
        acceleration=PLAIN if plan.on_device and env.id else CapturedActing(s.capture),
        window=config.window, games=len(env.games) or 1, first_game=first_index,
        partial_starts=decorrelation > 0, share=columns, threads=threads, memory=memory,
    )  # fmt: skip


def build_engine(plan: SamplerPlan, setup: EngineSetup, config: Resolved) -> Engine:
    """Build the engine that steps the environments: worker processes, this process, the device, or a user's engine."""
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
        return _device_engine(setup, plan.device)
    return find_engine(plan.engine)(setup)


def _device_engine(setup: EngineSetup, device: str) -> Engine:
    from accel_rl.samplers.device_engine import DeviceEngine

    if setup.env.game:
        from accel_rl.samplers.device_games import DeviceGames, make_device_game

        game = make_device_game(setup.env, setup.training, setup.reset == "cached", device)
        return DeviceEngine(setup, game.device, lambda seeds, _: DeviceGames(setup, game, seeds))
    from accel_rl.samplers.device_vectorized import made_on_device

    return DeviceEngine(setup, torch.device(device), partial(made_on_device, setup, torch.device(device)))
