"""The tuner measures the parts of a run, predicts the speed of possible placements, and compares the best of them with
the default placement by measurements.

    parts      emulation, inference by batch and threads, updates by threads       a quarter of the time
    sampling   the samplers that are predicted to be fast, in turns                a quarter
    training   the fastest against the defaults, in turns of whole cycles          the rest, without the proposals
    proposals  changes that alter the algorithm's numbers, measured, never made    a sixth
"""

import math
import statistics
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch

from accel_rl.agents.agent import RandomAgent
from accel_rl.algos.replay_algorithm import ReplayAlgorithmConfig
from accel_rl.config.resolved import resolve
from accel_rl.config.train import TrainConfig
from accel_rl.config.tuned import given_settings
from accel_rl.data.rollout import RnnState
from accel_rl.models.precision import autocast_for, multiplies_bfloat16
from accel_rl.runners.build import build_sampler
from accel_rl.runners.plan import RankPlan
from accel_rl.runners.signals import Stopped, StopRequest
from accel_rl.samplers.rollout_sampler import RolloutSampler
from accel_rl.samplers.workers.pool import WorkerPool
from accel_rl.system.counts import counted
from accel_rl.system.errors import ConfigError, RunError
from accel_rl.tuning.candidates import (
    Changes,
    Parts,
    Timing,
    best_of_each_kind,
    candidates,
    options_text,
    predict,
    with_changes,
)
from accel_rl.tuning.measured_training import MeasuredTraining, rate

LEAST_GAIN = 1.02
"""A placement is recommended if its median gain is at least 2 %, and a one-sided sign test of the turns is significant
at the 5 % level."""
KINDS = 4
"""Number of samplers that are measured in addition to the default sampler."""
LEAST_TURNS, MOST_TURNS = 5, 15
REPLAY_START, REPLAY_SIZE = 1_000, 50_000
HORIZON = 32


@dataclass
class Outcome:
    """`Outcome` is what a tuner has found so far. `ratios` lists, for each turn, the rate with the placement `changes`
    divided by the rate with the default placement. `proposals` maps options to such ratios, relative to the recommended
    placement."""

    changes: Changes = field(default_factory=dict)
    rate: float = 0.0
    default_rate: float = 0.0
    ratios: list[float] = field(default_factory=list)
    shares: dict[str, float] = field(default_factory=dict)
    proposals: dict[str, list[float]] = field(default_factory=dict)

    @property
    def is_faster(self) -> bool:
        return bool(self.changes) and is_faster(self.ratios)


def is_faster(ratios: Sequence[float]) -> bool:
    """Return whether the turns' ratios show a gain of at least LEAST_GAIN that is statistically significant."""
    n, faster = len(ratios), sum(r > 1 for r in ratios)
    chance = sum(math.comb(n, k) for k in range(faster, n + 1)) / 2**n
    return n > 0 and chance <= 0.05 and statistics.median(ratios) >= LEAST_GAIN


def measurable(config: TrainConfig) -> TrainConfig:
    """Return the settings of a run whose speed is measured: without evaluations and sinks, with a replay that is soon
    filled, and with rollouts of few minibatches, which make a cycle short."""
    algo: Any = config.algo
    if isinstance(algo, ReplayAlgorithmConfig):
        start = min(algo.replay.start, max(REPLAY_START, 4 * algo.batch_size))
        algo = replace(algo, replay=replace(algo.replay, size=min(algo.replay.size, REPLAY_SIZE), start=start))
    sampler, B = config.sampler, config.sampler.envs
    if minibatch := getattr(algo, "minibatch", 0):
        horizon, rest = divmod(-(-HORIZON * B // minibatch) * minibatch, B)
        if not rest and horizon < config.T:
            sampler = replace(sampler, horizon=horizon)
    return replace(
        config, algo=algo, sampler=sampler, evaluation=replace(config.evaluation, interval=0), callback=(), sink=(),
        log=replace(config.log, tensorboard=False), wandb="disabled", init="", init_only="", run_dir="",
    )  # fmt: skip


def measure_parts(
    run: MeasuredTraining, batches: Sequence[tuple[int, int]], threads: Sequence[int], seconds: float
) -> Parts:
    """Measure a run's parts separately, in about the given number of seconds. `batches` lists pairs (number of
    observations, number of threads) with which inference is measured. `threads` lists numbers of threads with which
    updates are measured."""
    each = seconds / (2 + 0.5 * len(batches) + 3 * len(threads))
    emulation = emulation_s(run, each)
    inference: dict[int, dict[int, float]] = {}
    for n, act_threads in batches:
        inference.setdefault(n, {})[act_threads] = acting_s(run, n, act_threads, each / 2)
    turns = [{n: run.learning(each, n) for n in threads} for _ in range(3)]
    updates = {n: 1 / statistics.median(turn[n] for turn in turns) for n in threads}
    timings = {n: Timing(seconds) for n, seconds in inference.items()}
    return Parts(emulation, timings, Timing(updates) if updates else None)


def emulation_s(run: MeasuredTraining, seconds: float) -> float:
    """Measure the time of one core, in seconds per env step, with random actions. Worker processes measure the time
    that they spend in their environments. With other engines, the total sampling time is measured."""
    engine: Any = getattr(run.sampler, "engine", None)
    agent = RandomAgent(run.trainer.spec.n_actions)
    if not isinstance(engine, WorkerPool):
        return 1 / run.sampling(seconds, agent)
    before, began = sum(engine.env_seconds()), time.perf_counter()
    steps = run.sampling(seconds, agent) * (time.perf_counter() - began)
    return (sum(engine.env_seconds()) - before) / steps


def acting_s(run: MeasuredTraining, n: int, threads: int, seconds: float) -> float:
    """Measure the duration, in seconds, of one inference call for `n` observations."""
    rollout, agent = run.sampler.collect(run.agent), run.agent
    device = rollout.reward.device
    obs = rollout.observations(0)[torch.arange(n, device=device) % rollout.B]
    memory = None
    if agent.state_size:
        memory = RnnState(torch.zeros(n, agent.state_size, device=device), torch.ones(1, n, dtype=torch.bool))
    uniform, before = torch.rand(n, device=device), torch.get_num_threads()

    def act() -> int:
        with torch.no_grad(), autocast_for(run.config.precision, device):
            agent.act(obs, uniform, memory, slice(0, n))[0].cpu()
        return 1

    torch.set_num_threads(threads)
    try:
        return 1 / rate(act, seconds, run.device)
    finally:
        torch.set_num_threads(before)


class Tuner:
    """A `Tuner` measures for about `seconds` seconds, and stores its result in `outcome`. A stop request ends the
    measurements."""

    def __init__(self, config: TrainConfig, seconds: float, stop: StopRequest, say: Callable[[str], None]):
        self.config = measurable(config)
        self.given = given_settings(config)
        self.T = config.T
        self.seconds = seconds
        self.stop, self.say = stop, say
        self.outcome = Outcome()
        self._began = time.monotonic()
        self._runs = 0

    def run(self) -> None:
        """Measure until the time is over or a stop is requested. When `run` returns, all processes that it started have
        ended."""
        with ExitStack() as stack, suppress(Stopped), self.stop.ends_wait():
            self._folder = Path(stack.enter_context(TemporaryDirectory(prefix="accel_rl-tune-")))
            default = self._build(stack, self.config)
            self.say(f"defaults: {placement_text(default.plan)}")
            best = self._fastest_sampler(default)
            if best:
                self._confirm(stack, default, best)
            else:
                self._measure_default(default)
            self._propose(stack, default)

    def left(self, share: float) -> float:
        """Return the number of seconds until the fraction `share` of the time is over."""
        return self._began + share * self.seconds - time.monotonic()

    def _build(self, stack: ExitStack, config: TrainConfig) -> MeasuredTraining:
        self._runs += 1
        run = MeasuredTraining(config, self._folder / str(self._runs), 1)
        stack.callback(run.close)
        return run

    def _fastest_sampler(self, default: MeasuredTraining) -> Changes:
        """Return the changes of the placement that is the fastest according to measurements of sampling and updates, or
        {} for the default placement."""
        plans = list(candidates(self.config, self.given, bool(default.device.queues_work)))
        batches = sorted({(s.grouping.B // s.grouping.groups, s.act_threads) for s in (p.sampler for _, p in plans)})
        threads = sorted({p.placement.torch_threads for _, p in plans})
        parts = measure_parts(default, batches, threads, self.left(0.25))
        assert parts.updates is not None
        updates = ", ".join(f"{1 / parts.updates.with_threads(n):,.0f} with {counted(n, 'thread')}" for n in threads)
        self.say(f"parts: emulation {1 / parts.emulation:,.0f} env steps/s a core; updates {updates}")
        self.parts = parts
        others = [(changes, plan) for changes, plan in plans if plan != default.plan]
        kinds = best_of_each_kind([(changes, plan, predict(plan, parts)) for changes, plan in others])
        with ExitStack() as stack:
            rates: dict[int, list[float]] = {}
            measured: list[tuple[Changes, RankPlan, Callable[[float], float]]] = []
            measured.append(({}, default.plan, default.sampling))
            for changes, plan, _ in kinds[:KINDS]:
                with suppress(ConfigError, RunError):
                    measured.append((changes, plan, self._sampling(stack, changes, plan, default.agent)))
            each = max(0.1, self.left(0.5) / (3 * len(measured)))
            while not rates or self.left(0.5) > 0:
                for i, (_, _, measure) in enumerate(measured):
                    rates.setdefault(i, []).append(measure(each))
        steps_s: dict[int, float] = {}
        for i, (changes, plan, _) in enumerate(measured):
            sampling = statistics.median(rates[i])
            steps_s[i] = 1 / sampling + parts.updates.with_threads(plan.placement.torch_threads)
            rate_text = f"{1 / steps_s[i]:,.0f} with updates"
            self.say(f"sampling: {sampling:,.0f} env steps/s, {rate_text}: {options_text(changes)}")
        return measured[min(steps_s, key=lambda i: steps_s[i])][0]

    def _sampling(self, stack: ExitStack, changes: Changes, plan: RankPlan, agent: Any) -> Callable[[float], float]:
        """Start a sampler, and return a function that measures the speed of sampling."""
        config = resolve(with_changes(self.config, changes))
        sampler: RolloutSampler = build_sampler(plan.sampler, config.env, config.spec, config, seed=0, training=True)
        stack.callback(sampler.close)
        sampler.collect(agent)

        def measure(seconds: float) -> float:
            before = torch.get_num_threads()
            torch.set_num_threads(plan.placement.torch_threads)
            try:
                return rate(lambda: sampler.collect(agent).env_steps, seconds, plan.device)
            finally:
                torch.set_num_threads(before)

        return measure

    def _confirm(self, stack: ExitStack, default: MeasuredTraining, changes: Changes) -> None:
        """Measure whole training with the changes and with the defaults, in turns. The recommendation is based only on
        these turns, because the placement with the best of several measurements was partly chosen by chance."""
        outcome, best = self.outcome, self._build(stack, with_changes(self.config, changes))
        outcome.changes = changes
        rates: tuple[list[float], list[float]] = ([], [])
        each = max(0.1, self.left(0.8) / (2 * LEAST_TURNS + 2))
        for turn in range(MOST_TURNS):
            order = [(0, default), (1, best)]
            for i, run in order if turn % 2 else order[::-1]:
                rates[i].append(run.training(each))
            outcome.ratios.append(rates[1][-1] / rates[0][-1])
            outcome.default_rate, outcome.rate = (statistics.median(r) for r in rates)
            self.say(f"training: {rates[0][-1]:,.0f} env steps/s, the best other {rates[1][-1]:,.0f}")
            if self.left(0.8 if turn + 1 >= LEAST_TURNS else 1.25) < 2 * each:
                break
        self._shares(best if outcome.is_faster else default)

    def _measure_default(self, default: MeasuredTraining) -> None:
        self.outcome.default_rate = self.outcome.rate = default.training(max(0.1, self.left(0.65)))
        self._shares(default)

    def _shares(self, run: MeasuredTraining) -> None:
        """Compute the shares of a run's time. Sampling and updates are measured within whole training, and the time of
        sampling is divided into emulation and inference in proportion to their separate measurements. On a GPU, which
        learns while the host samples, all shares are computed from the separate measurements."""
        schedule: Any = run.schedule
        p = predict(run.plan, self.parts)
        if run.device.queues_work:
            seconds = {"emulation": p.emulation, "inference": p.inference, "updates": p.updates}
            self.outcome.shares = {name: s / sum(seconds.values()) for name, s in seconds.items()}
            return
        before, began = schedule.sampling_s, time.monotonic()
        run.training(0.5)
        sampling = (schedule.sampling_s - before) / (time.monotonic() - began)
        if p.emulation + p.inference > 0:
            emulation = sampling * p.emulation / (p.emulation + p.inference)
            self.outcome.shares = {"emulation": emulation, "inference": sampling - emulation, "updates": 1 - sampling}
        else:
            self.outcome.shares = {"sampling": sampling, "updates": 1 - sampling}

    def _propose(self, stack: ExitStack, default: MeasuredTraining) -> None:
        """Compare changes that alter the algorithm's results with the recommended placement, by measurements."""
        changes = self.outcome.changes if self.outcome.is_faster else {}
        base = default
        for text, config in proposals(self.config, self.T, bool(default.device.queues_work)):
            if self.left(1) < self.seconds / 12:
                return
            with suppress(ConfigError, RunError):
                other = self._build(stack, with_changes(config, changes))
                if changes and base is default:
                    base = self._build(stack, with_changes(self.config, changes))
                ratios: list[float] = []
                while len(ratios) < 3:
                    ratios.append(other.training(0.5) / base.training(0.5))
                self.outcome.proposals[text] = ratios


def proposals(config: TrainConfig, T: int, on_gpu: bool) -> list[tuple[str, TrainConfig]]:
    """Return (options, measurable settings) for changes that alter the algorithm's results: a lower precision in which
    the device multiplies, and twice the environments, with half of the run's horizon T if T is even."""
    result = []
    if config.precision == "float32" and (on_gpu or multiplies_bfloat16()):
        result.append(("--precision bfloat16", replace(config, precision="bfloat16")))
    halves = T % 2 == 0 and config.T % 2 == 0
    sampler = replace(config.sampler, envs=2 * config.sampler.envs, horizon=config.T // 2 if halves else config.T)
    text = f"--envs {sampler.envs}" + (f" --horizon {T // 2}" if halves else "")
    return [*result, (text, replace(config, sampler=sampler))]


def placement_text(plan: RankPlan) -> str:
    """Return a line about a plan, such as "2 workers, 2 groups, one inference thread per group, 2 torch threads"."""
    s, threads = plan.sampler, plan.placement.torch_threads
    inference = ", one inference thread per group" if s.threaded_inference else ""
    return f"{s.environments()}{inference}, {threads} thread{'s' * (threads > 1)} an operation"
