"""The trainer runs a schedule's cycles from the first step to the last, and evaluates, reports and saves between
cycles."""

import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass
from typing import Any

import torch

from accel_rl.models.precision import multiply_in
from accel_rl.planning.plan import RankPlan
from accel_rl.run.run_folder import RunFolder
from accel_rl.samplers.episodes import episode_metrics
from accel_rl.samplers.rollout_sampler import RolloutSampler
from accel_rl.settings.resolved import Resolved
from accel_rl.text import output
from accel_rl.text.errors import RunError, no_exit
from accel_rl.training.callback import Callbacks, failed
from accel_rl.training.context import RankContext
from accel_rl.training.evaluation import Evaluation, Result
from accel_rl.training.evaluator import Evaluator
from accel_rl.training.learner import Learner
from accel_rl.training.reporter import Counters, Reporter
from accel_rl.training.saver import Saver
from accel_rl.training.schedule import Lockstep, Schedule
from accel_rl.training.seeds import Stream, derived_seed
from accel_rl.training.signals import Stopped, StopRequest
from accel_rl.training.stored_agents import BestAgent


@dataclass(eq=False)
class Trainer:
    """Trains with the parts of one rank's run, which `build_trainer` builds."""

    config: Resolved
    plan: RankPlan
    run_folder: RunFolder
    context: RankContext
    counters: Counters
    stop: StopRequest
    learner: Learner
    secondary: Learner | None
    sampler: RolloutSampler
    schedule: Schedule
    reporter: Reporter
    callbacks: Callbacks
    saver: Saver
    evaluator: Evaluator
    best: BestAgent
    state: dict[str, Any] | None = None
    """A loaded checkpoint, from which the run continues."""
    evaluation: Evaluation | None = None
    """The result of the run's last evaluation."""

    def __post_init__(self) -> None:
        self._is_save_due = False
        self._began, self._cycles_s = time.monotonic(), 0.0

    @property
    def learners(self) -> list[Learner]:
        return [self.learner] if self.secondary is None else [self.learner, self.secondary]

    def run(self) -> Result:
        """Train to the last env step, or until SIGINT or SIGTERM. Raises RunError if the run cannot continue."""
        with self._supervised(), self.stop:
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
        ended = lambda call: RunError(f"{self.config.algorithm} on {self.config.spec.name} ended: {call}")  # noqa: E731
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
        stop = bool(self.stop or self.run_folder.moved or self.callbacks.stopped)
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
        if self.state is not None:
            self.saver.restore(self.state)
        self.saver.checkpoints.clean()
        self.reporter.open(self.counters.env_steps, self.state["rows"] if self.state is not None else 0)
        self.state = None
        with self.stop.ends_wait() if self.config.distributed.size == 1 else nullcontext():
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
        self.reporter.progress(self.counters.env_steps, self.sampler.episodes.recent)

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
            return bool(self.stop)

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
        return Result(self.counters.env_steps, score, self.evaluation, self.stop.exit_code, wall, self._shares())

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
