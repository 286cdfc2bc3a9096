"""Builds the parts of a rank's run, and the trainer that runs them."""

from dataclasses import replace
from typing import Any

import torch

from accel_rl.algos.replay_algorithm import ReplayAlgorithm, ReplayAlgorithmConfig
from accel_rl.machine import hardware
from accel_rl.models.network_state import copy_network
from accel_rl.models.precision import multiply_in
from accel_rl.planning.plan import RankPlan
from accel_rl.processes import process
from accel_rl.run.run_folder import RunFolder
from accel_rl.samplers.episodes import Recent
from accel_rl.samplers.rollout_sampler import RolloutSampler
from accel_rl.settings.doors import find_schedule
from accel_rl.settings.resolved import Resolved
from accel_rl.training import initial_network
from accel_rl.training.build import build_sampler
from accel_rl.training.callback import Callbacks, Training
from accel_rl.training.concurrent import Concurrent
from accel_rl.training.context import SINGLE_RANK, RankContext
from accel_rl.training.evaluator import Evaluator
from accel_rl.training.learner import Learner
from accel_rl.training.observers import NO_OBSERVERS, Observers, UserSink
from accel_rl.training.reporter import Counters, Reporter
from accel_rl.training.saver import Saver
from accel_rl.training.schedule import Lockstep, Schedule
from accel_rl.training.seeds import Stream, derived_seed
from accel_rl.training.separate import Learning, NoSampler, Sampling
from accel_rl.training.signals import StopRequest
from accel_rl.training.stored_agents import BestAgent
from accel_rl.training.trainer import Trainer


def build_trainer(
    config: Resolved,
    plan: RankPlan,
    run: RunFolder,
    state: dict[str, Any] | None = None,
    context: RankContext = SINGLE_RANK,
    observers: Observers = NO_OBSERVERS,
) -> Trainer:
    """Build the trainer of one rank. `config`, `plan` and `run` are the settings, the plan and the folder of this rank.
    `state` is a loaded checkpoint, from which the run continues. `context` connects this rank to other ranks."""
    _prepare_process(config, plan)
    run.write_json("protocol.json", config.spec.protocol)
    counters, stop = Counters(), StopRequest()
    reporter = Reporter(config, run, context, [UserSink(sink) for sink in observers.sinks], plan.device)
    learner = Learner(config, config.spec, plan.device, derived_seed(config.seed, Stream.MODEL), context.exchange)
    if state is None:
        initial_network.load(run, learner)
    if context.rank:  # Ranks have equal parameters, but different random numbers for actions.
        torch.manual_seed(derived_seed(config.seed, Stream.RANK, context.rank))
    context.exchange.begin(learner.algo)
    secondary = _secondary_learner(config, plan, context, learner)

    def counts() -> tuple[list[Recent], int, int]:
        return list(sampler.episodes.recent), sampler.episodes.count, learner.updates

    def show_progress(ahead: int) -> None:
        reporter.progress(counters.env_steps + ahead, sampler.episodes.recent)

    callbacks = Callbacks(observers.callbacks, Training(config, plan, run, counters, counts, learner))
    sampler = callbacks.observed(_training_sampler(config, plan)) if context.samples else NoSampler(config.spec)
    schedule: Schedule
    if not context.learns:
        schedule = Sampling(sampler, learner, context.exchange)
    elif not context.samples:
        schedule = Learning(learner)
    elif config.schedule == "concurrent":
        schedule = Concurrent(
            sampler,
            learner,
            secondary,
            period=config.rank_period,
            threads=plan.placement.torch_threads,
            cores=plan.placement.learner_cores,
            most_skipped=config.max_skipped_updates,
            interrupted=lambda: bool(stop),
            sampled=show_progress,
        )
    else:
        cls = Lockstep if config.schedule == "lockstep" else find_schedule(config.schedule)
        schedule = cls(sampler, learner, secondary, context.exchange)
    saver = Saver(config, run, context, counters, learner, secondary, sampler, schedule, reporter, callbacks)
    return Trainer(
        config, plan, run, context, counters, stop, learner, secondary, sampler, schedule, reporter, callbacks, saver,
        Evaluator(config, plan), BestAgent(run), state,
    )  # fmt: skip


def _prepare_process(config: Resolved, plan: RankPlan) -> None:
    process.tune_torch(plan.placement.torch_threads)
    multiply_in(config.precision, plan.device)
    plan.device.use()
    if config.sampler.cores is not None or plan.placement.learner_cores:
        hardware.pin(plan.placement.server_cores)


def _training_sampler(config: Resolved, plan: RankPlan) -> RolloutSampler:
    seed = derived_seed(config.seed, Stream.SAMPLER)
    return build_sampler(plan.sampler, config.env, config.spec, config, seed=seed, training=True)


def _secondary_learner(config: Resolved, plan: RankPlan, context: RankContext, first: Learner) -> Learner | None:
    """The secondary learner (Stooke & Abbeel 2018, section 5.4.2) starts with the first learner's parameters, and
    draws batches of another size from the same replay."""
    c = config.secondary
    algo = config.algo
    if not c.batch:
        return None
    assert isinstance(algo, ReplayAlgorithmConfig) and isinstance(first.algo, ReplayAlgorithm)
    algo = replace(algo, batch_size=c.batch, learning_rate=c.rate or algo.learning_rate)
    seed = derived_seed(config.seed, Stream.SECONDARY)
    secondary = Learner(replace(config, algo=algo), config.spec, plan.device, seed, context.exchange)
    if context.rank:  # Each rank draws different batches from the replay.
        torch.manual_seed(derived_seed(config.seed, Stream.SECONDARY, context.rank))
    copy_network(first.algo.agent.model, secondary.algo.agent.model)
    assert isinstance(secondary.algo, ReplayAlgorithm)
    secondary.algo.share(first.algo)
    return secondary
