"""The trainer runs a schedule's cycles from the first step to the last, and evaluates, reports and saves between
cycles."""

import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, suppress
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
from accel_rl.samplers.episodes import Recent, episode_metrics
from accel_rl.samplers.rollout_sampler import RolloutSampler
from accel_rl.settings.doors import find_schedule
from accel_rl.settings.resolved import Resolved
from accel_rl.text import output
from accel_rl.text.errors import RunError, no_exit
from accel_rl.training import initial_network
from accel_rl.training.build import build_sampler
from accel_rl.training.callback import Callbacks, Training, failed
from accel_rl.training.concurrent import Concurrent
from accel_rl.training.context import SINGLE_RANK, RankContext
from accel_rl.training.evaluation import Evaluation, Result
from accel_rl.training.evaluator import Evaluator
from accel_rl.training.learner import Learner
from accel_rl.training.observers import NO_OBSERVERS, Observers, UserSink
from accel_rl.training.reporter import Counters, Reporter
from accel_rl.training.saver import Saver
from accel_rl.training.schedule import Lockstep, Schedule
from accel_rl.training.seeds import Stream, derived_seed
from accel_rl.training.separate import Learning, NoSampler, Sampling
from accel_rl.training.signals import Stopped, StopRequest
from accel_rl.training.stored_agents import BestAgent


class Trainer:
    """Builds the parts of a run (learner, sampler, evaluator, reporter), and trains.

    `config`, `plan` and `run` are the settings, the plan and the folder of this rank. `state` is a loaded checkpoint,
    from which the run continues. `context` connects this rank to other ranks.
    """

    def __init__(
        self,
        config: Resolved,
        plan: RankPlan,
        run: RunFolder,
        state: dict[str, Any] | None = None,
        context: RankContext = SINGLE_RANK,
        observers: Observers = NO_OBSERVERS,
    ):
        self.config = config
        self.plan = plan
        self.run_folder = run
        self._state = state
        self.context = context
        process.tune_torch(plan.placement.torch_threads)
        multiply_in(config.precision, plan.device)
        plan.device.use()
        if config.sampler.cores is not None or plan.placement.learner_cores:
            hardware.pin(plan.placement.server_cores)
        self.spec = config.spec
        run.write_json("protocol.json", self.spec.protocol)
        self.counters = Counters()
        self.reporter = Reporter(config, run, context, [UserSink(sink) for sink in observers.sinks], plan.device)
        self.learner = Learner(
            config, self.spec, plan.device, derived_seed(config.seed, Stream.MODEL), context.exchange
        )
        if state is None:
            initial_network.load(run, self.learner)
        if context.rank:  # Ranks have equal parameters, but different random numbers for actions.
            torch.manual_seed(derived_seed(config.seed, Stream.RANK, context.rank))
        context.exchange.begin(self.learner.algo)
        self.secondary = self._build_secondary()
        self.callbacks = Callbacks(
            observers.callbacks, Training(config, plan, run, self.counters, self._counts, self.learner)
        )  # fmt: skip
        self.sampler: RolloutSampler = NoSampler(self.spec)
        if context.samples:
            self.sampler = self.callbacks.observed(self._build_sampler())
        self._stop = StopRequest()
        self.schedule = self._build_schedule()
        self.saver = Saver(
            config, run, context, self.counters, self.learner, self.secondary, self.sampler, self.schedule,
            self.reporter, self.callbacks,
        )  # fmt: skip
        self.evaluator = Evaluator(config, plan)
        self.best = BestAgent(run)
        self._is_save_due = False
        self._began, self._cycles_s = time.monotonic(), 0.0
        self.evaluation: Evaluation | None = None  # the result of the run's last evaluation

    def _build_sampler(self) -> RolloutSampler:
        seed = derived_seed(self.config.seed, Stream.SAMPLER)
        return build_sampler(self.plan.sampler, self.config.env, self.spec, self.config, seed=seed, training=True)

    def _build_secondary(self) -> Learner | None:
        """The secondary learner (Stooke & Abbeel 2018, section 5.4.2) starts with the first learner's parameters, and
        draws batches of another size from the same replay."""
        c = self.config.secondary
        algo = self.config.algo
        first = self.learner.algo
        if not c.batch:
            return None
        assert isinstance(algo, ReplayAlgorithmConfig) and isinstance(first, ReplayAlgorithm)
        algo = replace(algo, batch_size=c.batch, learning_rate=c.rate or algo.learning_rate)
        config, seed = replace(self.config, algo=algo), derived_seed(self.config.seed, Stream.SECONDARY)
        secondary = Learner(config, self.spec, self.plan.device, seed, self.context.exchange)
        if self.context.rank:  # Each rank draws different batches from the replay.
            torch.manual_seed(derived_seed(self.config.seed, Stream.SECONDARY, self.context.rank))
        copy_network(self.learner.algo.agent.model, secondary.algo.agent.model)
        assert isinstance(secondary.algo, ReplayAlgorithm)
        secondary.algo.share(first)
        return secondary

    def _build_schedule(self) -> Schedule:
        c = self.config
        if not self.context.learns:
            return Sampling(self.sampler, self.learner, self.context.exchange)
        if not self.context.samples:
            return Learning(self.learner)
        if c.schedule != "concurrent":
            schedule = Lockstep if c.schedule == "lockstep" else find_schedule(c.schedule)
            return schedule(self.sampler, self.learner, self.secondary, self.context.exchange)
        return Concurrent(
            self.sampler,
            self.learner,
            self.secondary,
            period=c.rank_period,
            threads=self.plan.placement.torch_threads,
            cores=self.plan.placement.learner_cores,
            most_skipped=c.max_skipped_updates,
            interrupted=lambda: bool(self._stop),
            sampled=self._show_progress,
        )

    def _counts(self) -> tuple[list[Recent], int, int]:
        return list(self.sampler.episodes.recent), self.sampler.episodes.count, self.learner.updates

    @property
    def learners(self) -> list[Learner]:
        return [self.learner] if self.secondary is None else [self.learner, self.secondary]

    def run(self) -> Result:
        """Train to the last env step, or until SIGINT or SIGTERM. Raises RunError if the run cannot continue."""
        with self._supervised(), self._stop:
            with suppress(Stopped):
                self._open()
                while not self._ends():
                    self._cycle()
                self._end()
            return self._result()

    @contextmanager
    def _supervised(self) -> Iterator[None]:
        """A context that closes all parts of the run at its end, and logs errors that end the run. Calls of sys.exit
        and os._exit by the user's code are logged, too."""
        ended = lambda call: RunError(f"{self.config.algorithm} on {self.spec.name} ended: {call}")  # noqa: E731
        with output.written(self.reporter.record, self.reporter.event), no_exit(ended):
            try:
                yield
            except RunError as error:
                raise self.run_folder.logged(error) from error
            except (torch.AcceleratorError, torch.OutOfMemoryError) as error:
                raise self.run_folder.logged(failed(self.plan.device, error)) from error
            finally:
                self._close()

    def _ends(self) -> bool:
        """Evaluate, report and save if each is due. Return whether the run ends now: at its last env step, or because a
        signal, a callback or another rank stops it."""
        self._housekeeping()
        if self.callbacks.stopped:
            self.context.clock.end()
        stop = bool(self._stop or self.run_folder.moved or self.callbacks.stopped)
        stops, self._is_save_due = self.context.clock.agree(stop, self.saver.is_due)
        return stops or self.counters.env_steps >= self.config.env_steps

    def _end(self) -> None:
        self.saver.finish()
        is_saved = self.counters.saved_at == self.counters.env_steps and self.saver.last is not None
        if not is_saved or self.schedule.pending:
            self.saver.save()
        self.saver.finish()
        self.run_folder.raise_if_moved(self.counters.env_steps)
        self.callbacks("on_end")

    def _open(self) -> None:
        """Restore the given checkpoint, if any, and start the sampler. A stop signal ends the start of a run of one
        rank."""
        if self._state is not None:
            self.saver.restore(self._state)
        self.saver.checkpoints.clean()
        self.reporter.open(self.counters.env_steps, self._state["rows"] if self._state is not None else 0)
        self._state = None
        with self._stop.ends_wait() if self.config.distributed.size == 1 else nullcontext():
            self.sampler.start()
        self.context.exchange.open(self.learner.gradient_sync, self.counters.env_steps)
        self.reporter.begin(self.counters.env_steps)
        self._began = time.monotonic()
        self.callbacks("on_start")

    def _cycle(self) -> None:
        for learner in self.learners:
            learner.algo.now.progress = self.context.clock.progress(self.config.progress(self.counters.env_steps))
        began = time.monotonic()
        env_steps, metrics = self.schedule.cycle(self.config.env_steps - self.counters.env_steps)
        self._cycles_s += time.monotonic() - began
        for m in metrics:
            self.reporter.recorder.add(m)
        self.counters.env_steps = self.context.clock.count(
            self.counters.env_steps, env_steps, self.sampler.episodes, self.learner.updates
        )
        for learner in self.learners:
            if learner.gradient_sync.skips.seen_in_a_row >= self.config.max_skipped_updates:
                raise self._diverged(learner)
        if metrics:
            self.callbacks("on_update", metrics)
        self._show_progress()

    def _show_progress(self, ahead: int = 0) -> None:
        """`ahead` is the number of env steps in the unfinished cycle."""
        self.reporter.progress(self.counters.env_steps + ahead, self.sampler.episodes.recent)

    def _diverged(self, learner: Learner) -> RunError:
        """Log that training has diverged. No checkpoint is saved, because the diverged parameters may be useless."""
        last = self.saver.last
        saved = (
            f"the last good checkpoint is at {last:,} env steps" if last is not None else "there is no checkpoint yet"
        )
        line = (
            f"{learner.gradient_sync.skips.in_a_row} updates in a row had a loss or gradient that is not finite, at "
            f"{self.counters.env_steps:,} env steps; {saved}. Try a lower --algo.learning-rate, or look for NaN in the "
            "environment's rewards and observations"
        )
        self.run_folder.event(line)
        return RunError(line)

    def _housekeeping(self) -> None:
        """Before every cycle, evaluate, report and save a checkpoint, each if it is due."""
        counters, config = self.counters, self.config
        self.run_folder.follow()
        done = counters.env_steps >= config.env_steps
        evaluations: list[Evaluation] = []
        evaluated = False
        if config.evaluation.interval and counters.due(counters.evaluated_at, config.evaluation.interval, done):
            if self.context.rank == 0:
                evaluations = self._evaluate()
            evaluated = self.context.barrier.agreed(bool(evaluations))
            if not evaluated:
                return  # An evaluation that was interrupted by a stop is repeated after a resume.
            self.evaluation, counters.evaluated_at = next(iter(evaluations), None), counters.env_steps
            if self.evaluation is not None:
                self.callbacks("on_evaluation", self.evaluation)
        if evaluated or counters.due(counters.logged_at, config.log_interval(), done):
            self._verify()
            self.reporter.row(
                counters, self.learner, self.sampler.episodes, evaluations, self.callbacks.row,
                self.schedule.acting_age,
            )  # fmt: skip
            counters.logged_at = counters.env_steps
        is_late = self._is_save_due and counters.saved_at != counters.env_steps
        if is_late or counters.due(counters.saved_at, config.checkpoint.interval or 0, done):
            self.saver.save()
        self.saver.step()

    def _verify(self) -> None:
        """Raise RunError if too many consecutive updates were skipped, because training has then diverged."""
        for learner in self.learners:
            learner.gradient_sync.verify()
            if learner.gradient_sync.skips.in_a_row >= self.config.max_skipped_updates:
                raise self._diverged(learner)

    def _evaluate(self) -> list[Evaluation]:
        """Evaluate each learner on the same episode starts. Returns [] if the run was asked to stop during the
        evaluation."""
        config, counters = self.config, self.counters
        steps = config.evaluation.size(config.env_steps)

        def stopped() -> bool:
            self.context.barrier.beat()
            return bool(self._stop)

        self.saver.finish()  # `best.note` needs the list of complete checkpoints.
        self.reporter.evaluating()
        multiply_in("float32", self.plan.device)
        evaluations = []
        for learner in self.learners:
            learner.gradient_sync.pull()
            agent = learner.algo.agent.evaluating(config.evaluation.greedy)
            seed = derived_seed(config.seed, Stream.EVALUATION, counters.env_steps)
            evaluation = self.evaluator.evaluate(agent, steps=steps, seed=seed, stop=stopped)
            if evaluation is None:
                break
            evaluations.append(evaluation)
        multiply_in(config.precision, self.plan.device)
        self.reporter.resume(counters.env_steps)
        if len(evaluations) < len(self.learners):
            return []
        self.reporter.evaluated(counters.env_steps, evaluations)
        self.best.note(counters.env_steps, evaluations[0], self.learner.agent_state())
        return evaluations

    def _result(self) -> Result:
        wall = self.reporter.time.wall_s
        recent, _, _ = self.context.clock.report(self.sampler.episodes, self.learner.updates)
        score = episode_metrics(recent, self.config.env.games)["score"]
        return Result(self.counters.env_steps, score, self.evaluation, self._stop.exit_code, wall, self._shares())

    def _shares(self) -> dict[str, float]:
        """The fraction of this process's time for each activity. {} if activities overlap, as with the concurrent
        schedule, several ranks, or a GPU, which learns while the host samples."""
        total = time.monotonic() - self._began
        schedule, overlaps = self.schedule, self.plan.device.queues_work or self.plan.size > 1
        if overlaps or not isinstance(schedule, Lockstep) or not self._cycles_s:
            return {}
        sampling = schedule.sampling_s
        seconds = {"sampling": sampling, "updates": self._cycles_s - sampling, "other": total - self._cycles_s}
        return {name: s / total for name, s in seconds.items()}

    def _close(self) -> None:
        self.saver.close()
        self.schedule.close()
        self.sampler.close()
        self.evaluator.close()
        for learner in self.learners:
            learner.close()
        self.reporter.close()
