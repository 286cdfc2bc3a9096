"""A training run in one process as plain code, without optimizations, ranks, worker processes or files.

    result = train(default_config("ppo") with a game)

    for each rollout:
        rollout = sampler.collect(agent)             T steps of B environments
        advance(algo, rollout)                       algo.now: learning rate, clip range, epsilon ...
        algo.ingest(rollout)                         advantages, or an append to the replay
        for batch in algo.batches():                 epochs x minibatches, or draws from the replay
            loss = algo.loss(batch)
            sync.update(loss, rate)                  gradient, clipping, optimizer
            algo.after_update(batch, loss)           priorities
        algo.after_phase()                           a learning rate that follows the KL divergence

A `Trainer` adds evaluations, metrics, checkpoints, worker processes, ranks and CUDA graphs to the loop of this module,
and computes the same numbers bit for bit (tests/training/test_loop.py).
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from accel_rl.algos.algorithm import Algorithm, Loss, advance, set_schedules
from accel_rl.distributed.gradient_sync import Local
from accel_rl.distributed.guarded_step import GuardedStep
from accel_rl.models.network_state import training_mode
from accel_rl.optim.flat import FlatParameters
from accel_rl.samplers.engine import EngineSetup
from accel_rl.samplers.grouping import Grouping
from accel_rl.samplers.in_process import InProcessEngine
from accel_rl.samplers.sampler import Sampler
from accel_rl.settings.registry import find_algorithm
from accel_rl.settings.resolved import Resolved, resolve
from accel_rl.settings.train import TrainConfig
from accel_rl.training.seeds import Stream, derived_seed


@dataclass(frozen=True, slots=True)
class LoopResult:
    env_steps: int
    updates: int
    scores: tuple[float, ...]
    algo: Algorithm


def train(
    given: TrainConfig, groups: int = 1, updated: Callable[[int, Any, Loss], None] = lambda env_steps, batch, loss: None
) -> LoopResult:
    """Train one learner on this process's CPU, with the lockstep schedule, to the last env step. `groups` is the number
    of groups of environments. The result depends on `groups`, because each group's actions are a separate batch.
    `updated` is called after each update, with the number of env steps before the update's rollout."""
    config = resolve(given)
    spec = config.spec

    torch.manual_seed(derived_seed(config.seed, Stream.MODEL))
    algo = find_algorithm(config.algorithm)(config.algo, spec, T=config.T, B=config.sampler.envs)
    model = algo.agent.model.eval()
    flat = FlatParameters(model)
    sync = Local(GuardedStep(flat, algo.build_optimizer(len(flat.data)), algo.config.max_grad_norm))
    set_schedules(algo)
    algo.begin()
    sampler = build_sampler(config, groups)

    now, updates = algo.now, 0
    try:
        while now.env_steps < config.env_steps:
            before = now.env_steps
            now.progress = config.progress(before)
            rollout = sampler.collect(algo.agent)
            advance(algo, rollout)
            algo.ingest(rollout)
            previous = updates
            with training_mode(model):
                for batch in algo.batches():
                    loss = algo.loss(batch)
                    sync.update(loss.total, loss.samples, now.learning_rate)
                    algo.after_update(batch, loss)
                    updated(before, batch, loss)
                    updates += 1
            if updates > previous:
                algo.after_phase()
    finally:
        sampler.close()
    return LoopResult(now.env_steps, updates, tuple(score for score, *_ in sampler.episodes.recent), algo)


def build_sampler(config: Resolved, groups: int) -> Sampler:
    """A sampler that steps the environments one after another, and calls the agent directly."""
    s, seed = config.sampler, derived_seed(config.seed, Stream.SAMPLER)
    spec = config.spec
    setup = EngineSetup(
        config.env, spec, Grouping(s.envs, groups, workers=1), config.T, seed,
        reset=s.reset, decorrelation_steps=s.decorrelation_steps,
    )  # fmt: skip
    return Sampler(
        InProcessEngine(setup), spec, seed, reset=s.reset, window=config.window,
        partial_starts=s.decorrelation_steps > 0, games=len(config.env.games) or 1,
    )  # fmt: skip
