"""In concurrent training, sampling and learning run in parallel, and synchronize every C env steps (Daley & Amato 2021,
section 3).

    sampler   | act C steps with the snapshot, stage them | act C steps ...
    trainer   | C / F minibatches of the replay as it was | C / F minibatches ...
              ^                                           ^ synchronize: staged steps into the replay,
                                                            target <- learned, snapshot <- target

Between two synchronizations, the sampler and the trainer are independent of each other. A concurrent run therefore
gives the same result as sampling and training one after the other.
"""

import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import Any

import torch

from accel_rl.algos.algorithm import advance, set_epsilon, set_schedules
from accel_rl.algos.replay_algorithm import ReplayAlgorithm, ReplayAlgorithmConfig
from accel_rl.data.rollout import Rollout
from accel_rl.machine.devices import Device
from accel_rl.machine.hardware import pin
from accel_rl.metrics.update_metrics import UpdateMetrics
from accel_rl.models.network_state import copy_network, load_network, network_state
from accel_rl.samplers.rollout_sampler import RolloutSampler
from accel_rl.settings.registry import NAMES_WITH_REPLAY
from accel_rl.settings.resolved import Resolved
from accel_rl.text.errors import ConfigError
from accel_rl.training.learner import Learner
from accel_rl.training.schedule import Schedule, with_names

# While the sampler waits for the trainer, the sampler checks every LOOK_S seconds whether the run must end.
LOOK_S = 0.2


def check(config: Resolved) -> None:
    """Raise ConfigError for settings that --schedule concurrent does not support."""
    algo, schedule = config.algo, "--schedule concurrent"
    if not isinstance(algo, ReplayAlgorithmConfig):
        raise ConfigError(f"{schedule}: only {NAMES_WITH_REPLAY} have a replay and a target network")
    for name in algo.units:
        if (unit := getattr(algo, name)) != "env-steps":
            raise ConfigError(f"--algo.{name.replace('_', '-')} {unit}: only env-steps with {schedule}")
    each = config.T * config.sampler.envs
    if config.period % each:
        raise ConfigError(
            f"--algo.target-interval {config.period}: must divide by {config.sampler.envs} environments x {config.T} "
            f"steps with {schedule}; use {max(1, round(config.period / each)) * each}"
        )


class Concurrent(Schedule):
    """A schedule for algorithms with a replay and a target network. One cycle is one period of C env steps.

    Sampled steps are appended to the replay at the next synchronization, so the replay does not change while the
    trainer reads it.
    """

    def __init__(
        self,
        sampler: RolloutSampler,
        learner: Learner,
        secondary: Learner | None = None,
        *,
        period: int,
        threads: int = 1,
        cores: tuple[int, ...] = (),
        most_skipped: int = 2**31,
        interrupted: Callable[[], bool] = lambda: False,
        sampled: Callable[[int], None] = lambda env_steps: None,
    ):
        """`period` is the number C of this rank's env steps between two synchronizations, a multiple of T x B.
        `threads` is the number of torch threads of the trainer. `cores` are the cores to which the trainer's thread is
        pinned. The trainer stops after `most_skipped` consecutive updates with a non-finite loss or gradient.
        A period ends early if `interrupted` returns True. After each rollout, `sampled` is called with the number of
        env steps that the period has sampled."""
        self.sampler = sampler
        self.learners = with_names(learner, secondary)
        self.most_skipped, self.interrupted, self.sampled = most_skipped, interrupted, sampled
        self.algos = [_with_replay(x) for _, x in self.learners]
        self.algo = self.algos[0]
        self.each = sampler.T * sampler.B
        assert period % self.each == 0
        assert sampler.buffers > period // self.each, "the rollouts of a period must stay whole"
        self.period = period
        self.behaviour = self.algo.behaviour()
        self._rollouts = 0  # Counts the rollouts of the current period.
        # `_owed` lists, for each learner, the number of the period's env steps for which updates are due.
        self._owed = [0 for _ in self.learners]
        self._staged: list[Rollout] = []
        self._metrics_of_period: list[tuple[str, UpdateMetrics]] = []
        self._pause = threading.Event()
        self.thread = ThreadPoolExecutor(1, "trainer", self._set_up_thread, (threads, cores))
        self._device = Device(self.algo.device)
        # The trainer has its own CUDA stream, which is not ordered with the sampler's stream.
        self._stream = self._device.stream(self)

    def _set_up_thread(self, threads: int, cores: tuple[int, ...]) -> None:
        torch.set_num_threads(threads)
        if cores:
            pin(cores)

    @property
    def pending(self) -> bool:
        return self._rollouts > 0

    def cycle(self, remaining: int = 0) -> tuple[int, list[UpdateMetrics]]:
        """Run one period, or the rest of an interrupted period. Returns (0, []) if the period is interrupted.
        `remaining` is the number of env steps until the end of the run."""
        for algo in self.algos:
            set_schedules(algo)
        if not self._rollouts:
            self._begin(remaining)
        self._pause.clear()
        training = self.thread.submit(self._train)
        try:
            self._sample(training)
            self._await(training)
        finally:  # If sampling fails, the trainer stops after its current minibatch.
            self._pause.set()
            training.result()
        if self._ends_early() or len(self._staged) < self._rollouts:
            return 0, []
        return self._synchronize()

    def _ends_early(self) -> bool:
        """Whether the period must end early. Ranks that share batches never end a period early, because they would stop
        at different updates."""
        if self.algo.communicator.size > 1:
            return False
        return self.interrupted() or any(
            x.gradient_sync.skips.seen_in_a_row >= self.most_skipped for _, x in self.learners
        )

    # -- periods ------------------------------------------------------------

    def _begin(self, remaining: int) -> None:
        # This rank's share of the run's remaining env steps
        mine = -(-max(remaining, 1) // self.algo.communicator.size)
        self._rollouts = -(-min(self.period, mine) // self.each)
        self._owed = [algo.owe(self._rollouts * self.each * algo.communicator.size) for algo in self.algos]

    def _sample(self, training: Future[None]) -> None:
        # Schedules count the env steps of all ranks, and every rank samples the same number of env steps.
        ranks = self.algo.communicator.size
        staged = ranks * sum(r.env_steps for r in self._staged)
        while len(self._staged) < self._rollouts and not (self._ends_early() or _failed(training)):
            now = self.algo.now
            set_epsilon(self.behaviour, self.algo.schedules(now.progress, now.env_steps + staged))
            rollout = self.sampler.collect(self.behaviour)
            # The sampler has one buffer per rollout, so no rollout is overwritten before the period ends.
            self._staged.append(rollout)
            staged += ranks * rollout.env_steps
            self.sampled(staged)

    def _await(self, training: Future[None]) -> None:
        while not training.done() and not self._ends_early():
            wait([training], LOOK_S)
            self.sampler.check()

    def _train(self) -> None:
        """Make the period's updates, in the trainer's thread."""
        self._stream.wait_stream(self._device.default_stream())
        with self._device.on(self._stream):
            for prefix, learner in self.learners:
                while metrics_of_updates := learner.learn(pause=self._is_to_pause):
                    self._metrics_of_period += [(prefix, metrics) for metrics in metrics_of_updates]
                    if self._is_to_pause():
                        break

    def _is_to_pause(self) -> bool:
        return self._pause.is_set() or self._ends_early()

    def _synchronize(self) -> tuple[int, list[UpdateMetrics]]:
        self._device.default_stream().wait_stream(self._stream)
        # Schedules count the env steps of all ranks. Every rank samples the same number of env steps.
        env_steps = sum(r.env_steps for r in self._staged)
        for algo, owed in zip(self.algos, self._owed, strict=True):
            taken = 0
            for rollout in self._staged:
                advance(algo, rollout)
                algo.store(rollout)
                taken += algo.now.counted.of_batch
            if owed > taken:  # No updates are due for skipped env steps (--sampler.reset wait).
                algo.owe(taken - owed)
            algo.target_network.update()
        copy_network(self.algo.target, self.behaviour.model)
        self.acting_age = sum(m.updates for prefix, m in self._metrics_of_period if not prefix)
        metrics = [result.prefixed(prefix) for prefix, result in self._metrics_of_period]
        self._rollouts = 0
        self._staged = []
        self._metrics_of_period = []
        return env_steps, metrics

    # -- checkpoints ------------------------------------------------------------

    def state_dict(self) -> dict[str, Any]:
        """The state of the schedule, including an interrupted period."""
        return {
            "rollouts": self._rollouts,
            "owed": self._owed,
            "acting_age": self.acting_age,
            "staged": [r.state_dict() for r in self._staged],
            "found": [_stacked([f for p, f in self._metrics_of_period if p == prefix]) for prefix, _ in self.learners],
            "behaviour": network_state(self.behaviour.model),
        }

    def load_state_dict(self, state: dict[str, Any] | None) -> None:
        """Raises ValueError for the state of another schedule."""
        if state is None:
            raise ValueError("the run was begun with --schedule lockstep, so its checkpoint has no period to continue")
        self._rollouts, self._owed = state["rollouts"], list(state.get("owed", self._owed))
        self.acting_age = state["acting_age"]
        self._staged = [Rollout.from_state(s, self.algo.device) for s in state["staged"]]
        self._metrics_of_period = [
            (prefix, metrics)
            for (prefix, _), result in zip(self.learners, state["found"], strict=True)
            for metrics in _unstacked(result, self.algo.device)
        ]
        load_network(self.behaviour.model, state["behaviour"], "the checkpoint's acting network")

    def close(self) -> None:
        self._pause.set()
        self.thread.shutdown()


def _with_replay(learner: Learner) -> ReplayAlgorithm:
    assert isinstance(learner.algo, ReplayAlgorithm)
    return learner.algo


def _failed(training: Future[None]) -> bool:
    return training.done() and training.exception() is not None


def _stacked(metrics: list[UpdateMetrics]) -> dict[str, Any]:
    """The sums [k, M] of M metrics, and the numbers of updates [k], of k updates or groups of updates."""
    if not metrics:
        return {}
    sums = torch.stack([m.sums for m in metrics])
    return {"names": list(metrics[0].names), "sums": sums, "updates": [m.updates for m in metrics]}


def _unstacked(stacked: dict[str, Any], device: torch.device) -> list[UpdateMetrics]:
    if not stacked:
        return []
    names, sums = tuple(stacked["names"]), stacked["sums"].to(device)
    return [UpdateMetrics(names, x, n) for x, n in zip(sums, stacked["updates"], strict=True)]
