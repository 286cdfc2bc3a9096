"""From a configuration to the parts of a run."""

import sys
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from accel_rl.config.settings import TrainConfig, find_algorithm
from accel_rl.data.spec import EnvSpec
from accel_rl.envs.games import unclean_reset
from accel_rl.envs.make import EnvConfig
from accel_rl.samplers.engine import Engine
from accel_rl.samplers.grouping import Grouping, most_workers
from accel_rl.samplers.in_process import InProcessEngine
from accel_rl.samplers.inference.threads import InferenceThreads
from accel_rl.samplers.sampler import Sampler
from accel_rl.samplers.workers.pool import PoolConfig, WorkerPool
from accel_rl.system import hardware
from accel_rl.system.errors import ConfigError
from accel_rl.system.hardware import Placement

# Workers that share their cores with the action server give way to it: all of them wait for it. More than this gains
# little, and other programs at nice 0 would leave the workers nothing.
NICE_BESIDE_SERVER = 10
# Environments of a group that is served beside another. Each thread reads the network's weights for itself: even so two
# sampled 1.2 to 1.5 times as fast as one server at 4, 8 and 16; A2C with its 16 trained as fast with either.
LEAST_BESIDE = 4


def stderr_log(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def resolve_device(device: str) -> str:
    """`auto` -> cuda if there is a GPU. ConfigError for a device that is not there."""
    if device == "auto":
        return "cuda:0" if hardware.gpu_count() else "cpu"
    return hardware.available_device(device, "--device")


def plan(config: TrainConfig, device: str) -> tuple[Placement, Grouping]:
    """Who runs where, and which environments are whose. ConfigError where B does not divide."""
    s = config.sampler
    placement = placed(
        hardware.plan(s.workers, s.cores, device, config.torch_threads, config.schedule == "concurrent"), config.env
    )
    groups = 1 if s.inference_per_worker else groups_of(config, placement)  # that a worker has a part of
    if s.workers is None:
        if s.envs % groups:
            raise ConfigError(f"B={s.envs} must divide by {groups} groups; use {-(-s.envs // groups) * groups}")
        fitting = most_workers(s.envs, groups, placement.workers)
        if fitting < placement.workers:
            hardware.say_once(
                f"{s.envs} environments in {groups} groups keep {fitting} of {placement.workers} cores busy; "
                f"a multiple of {groups * placement.workers} (--sampler.envs) would use all"
            )
        placement = replace(placement, worker_cores=placement.worker_cores[:fitting])
    return placement, grouping_of(config, placement)


def grouping_of(config: TrainConfig, placement: Placement) -> Grouping:
    """Of a training run's environments. Where the workers wait for actions on the cores that infer, and are many
    enough, half of them are a group each."""
    s, workers = config.sampler, placement.workers
    if s.inference_per_worker:
        return Grouping(s.envs, workers, workers, dedicated_workers=True)
    groups = groups_of(config, placement)
    apart = _serves_beside(config, placement) and s.envs % workers == 0
    if apart and s.groups is None and workers % 2 == 0 and s.envs >= 2 * LEAST_BESIDE:
        groups = 2
    return Grouping(s.envs, groups, workers, dedicated_workers=apart and groups > 1 and workers % groups == 0)


def _serves_beside(config: TrainConfig, placement: Placement) -> bool:
    """Whether groups with workers of their own are served by threads of their own: not those that are to be served in
    order of arrival, nor beside a trainer, whose number of threads the libraries that multiply would take for theirs.
    """
    atari = placement.device == "cpu" and bool(config.env.game)
    return atari and config.schedule != "concurrent" and not config.sampler.inference_per_worker


def groups_of(config: TrainConfig, placement: Placement) -> int:
    """Alternating groups. Where a step takes less than inference, and both take the same cores, one."""
    return config.sampler.groups or (1 if _plays_by_emulator(placement, config.env) else 2)


def _plays_by_emulator(placement: Placement, env: EnvConfig) -> bool:
    """An Atari emulator so fast that the workers wait for actions, on a machine without a GPU."""
    return placement.device == "cpu" and bool(env.game) and env.resolved().backend == "emulator"


def placed(placement: Placement, env: EnvConfig) -> Placement:
    """With the threads that acting takes: all, where the workers wait for actions."""
    if _plays_by_emulator(placement, env):
        return replace(placement, act_threads=placement.torch_threads)
    return placement


def build_sampler(
    env: EnvConfig,
    spec: EnvSpec,
    config: TrainConfig,
    placement: Placement,
    grouping: Grouping,
    *,
    T: int,
    seed: int,
    training: bool,
    first_index: int = 0,
    keep: bool = True,
    log: Callable[[str], None] = stderr_log,
    note: Callable[[str], None] = lambda line: None,
) -> Sampler:
    """A sampler over worker processes (or in this process, as configured). Training and evaluation alike.

    first_index: of its environments among those of all ranks. keep: what acting computes, where the algorithm's update
    can use it.
    """
    s = config.sampler
    reset = s.reset if training else "immediate"
    if (why := unclean_reset(env.game, reset)) is not None:
        hardware.say_once(f"--sampler.reset {reset}: {why}, so its episodes are not exactly those of immediate")
    decorrelation = s.decorrelation_steps if training else 0
    act_cores: tuple[int, ...] = ()
    act_threads, beside = placement.act_threads, None
    engine: Engine
    if s.engine == "in-process":
        engine = InProcessEngine(
            env, spec, grouping, T, seed, training=training, reset=reset, decorrelation_steps=decorrelation,
            first_index=first_index,
        )  # fmt: skip
    else:
        shared = bool(set(placement.server_cores) & set(placement.worker_cores))
        pool = PoolConfig(
            cores=placement.worker_cores[: grouping.workers],
            training=training,
            reset=reset,
            decorrelation_steps=decorrelation,
            strict=config.strict,
            timeout_s=s.timeout_s,
            nice=NICE_BESIDE_SERVER if shared else 0,
            spins=0 if shared else 200,
            first_index=first_index,
        )
        engine = WorkerPool(env, spec, grouping, T, seed, pool, log)
        if grouping.dedicated_workers and shared and _serves_beside(config, placement):
            act_threads = max(1, placement.torch_threads // grouping.groups)
            each = [[pool.cores[w] for w in grouping.workers_of(g)] for g in range(grouping.groups)]
            beside = InferenceThreads(engine, [[c for c in own if c is not None] for own in each], act_threads)
        elif shared and act_threads == 1 and len(placement.server_cores) > 1 and None not in pool.cores:
            act_cores = placement.server_cores
    return Sampler(
        engine,
        spec,
        seed if not first_index else int(np.random.SeedSequence(seed, spawn_key=(first_index,)).generate_state(1)[0]),
        reset=reset,
        device=placement.device,
        act_threads=act_threads,
        act_cores=act_cores,
        precision=config.precision if training else "float32",
        cache_activations=keep and training and find_algorithm(config.algorithm).on_policy,
        window=config.log.window,
        partial_starts=decorrelation > 0,
        capture=s.capture,
        threads=beside,
        note=note,
    )
