"""A run from the first step to the last: cycles of the schedule, with evaluation, rows and checkpoints between."""

import time
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch

from accel_rl.agents.base import Agent
from accel_rl.checkpoints.checkpoint import Checkpoints
from accel_rl.config.settings import TrainConfig
from accel_rl.data.spec import EnvSpec
from accel_rl.envs.make import make_spec
from accel_rl.metrics.progress import ProgressDisplay, Silent
from accel_rl.metrics.recorder import Recorder, episode_metrics
from accel_rl.metrics.sinks import CsvSink, Row, Sink
from accel_rl.metrics.tensorboard import tensorboard_sink
from accel_rl.metrics.wandb import wandb_sink
from accel_rl.runners.build import build_sampler, plan, resolve_device
from accel_rl.runners.concurrent import Concurrent
from accel_rl.runners.evaluation import Evaluation, evaluate
from accel_rl.runners.learner import Learner
from accel_rl.runners.ranks.context import SINGLE_RANK, RankContext
from accel_rl.runners.run_folder import RunFolder
from accel_rl.runners.schedule import Lockstep, Schedule
from accel_rl.runners.signals import StopRequest
from accel_rl.system import hardware, process
from accel_rl.system.errors import RunError

# streams of randomness that follow from the run's seed
_SAMPLER, _MODEL, _EVALUATION, _SECONDARY, _RANK = range(5)


def derived_seed(seed: int, stream: int, *index: int) -> int:
    return int(np.random.SeedSequence(seed, spawn_key=(10_000_000 + stream, *index)).generate_state(1)[0] >> 1)


@dataclass(slots=True)
class Result:
    """How a run ended."""

    env_steps: int
    score: float  # online, over the last episodes
    evaluation: Evaluation | None
    exit_code: int  # 0, or 128 + the signal that stopped it
    wall_s: float


@dataclass(slots=True)
class Counters:
    """Where the run is: everything that decides what is due next."""

    env_steps: int = 0
    evaluated_at: int = 0
    logged_at: int = 0
    saved_at: int = 0


class Trainer:
    """Builds the parts and runs them. `state`: a checkpoint's, to go on from. `group`: the ranks it is one of; config
    and run are then this rank's."""

    def __init__(
        self, config: TrainConfig, run: RunFolder, state: dict[str, Any] | None = None, group: RankContext = SINGLE_RANK
    ):
        self.config, self.run_folder, self._state, self.group = config, run, state, group
        self.device = resolve_device(config.device)
        self.placement, self.grouping = plan(config, self.device)
        process.tune_torch(self.placement.torch_threads)
        if config.sampler.cores is not None or self.placement.learner_cores:
            hardware.pin(self.placement.server_cores)
        self.spec = make_spec(config.env, training=True, reset=config.sampler.reset)
        run.write_json("protocol.json", self.spec.protocol)
        self.learner = Learner(config, self.spec, self.device, derived_seed(config.seed, _MODEL), group)
        if group.rank:  # the same parameters, other choices
            torch.manual_seed(derived_seed(config.seed, _RANK, group.rank))
        self.learner.algo.begin()
        self.secondary = self._build_secondary()
        self.sampler = build_sampler(
            config.env,
            self.spec,
            config,
            self.placement,
            self.grouping,
            T=config.T,
            seed=derived_seed(config.seed, _SAMPLER),
            training=True,
            first_index=group.rank * config.sampler.envs,
            log=self._event,
            note=run.event,
        )
        self.schedule = self._build_schedule()
        keep = config.checkpoint.keep + bool(group.rank)  # the leader's, which counts, is written last
        self.checkpoints = Checkpoints(run.path / "checkpoints", keep)
        self.recorder, self.at = Recorder(), Counters()
        self.evaluation: Evaluation | None = None
        self._progress: ProgressDisplay | None = None
        self._sinks: list[Sink] = []
        self._began = self._row_at = time.monotonic()

    def _build_secondary(self) -> Learner | None:
        """Stooke & Abbeel 2018, section 5.4.2: from the same parameters, on the same replay, another batch."""
        c = self.config.secondary
        if not c.batch:
            return None
        algo = replace(
            self.config.algo, batch_size=c.batch, learning_rate=c.rate or self.learner.algo.config.learning_rate
        )  # type: ignore[call-arg]
        secondary = Learner(
            replace(self.config, algo=algo), self.spec, self.device, derived_seed(self.config.seed, _SECONDARY)
        )
        secondary.flat.data.copy_(self.learner.flat.data)
        secondary.algo.share(self.learner.algo)  # type: ignore[attr-defined]
        return secondary

    def _build_schedule(self) -> Schedule:
        c = self.config
        if c.schedule == "lockstep":
            return Lockstep(self.sampler, self.learner, self.secondary, self.group)
        return Concurrent(
            self.sampler,
            self.learner,
            self.secondary,
            period=c.period,
            threads=self.placement.torch_threads,
            cores=self.placement.learner_cores,
            most_skipped=c.max_skipped_updates,
        )

    # -- the run ------------------------------------------------------------

    def run(self) -> Result:
        try:
            with StopRequest() as stop:
                self._open()
                self.schedule.interrupted = lambda: bool(stop)
                self.schedule.sampled = self._show_progress
                while True:
                    self._housekeeping(stop)
                    if self.group.stops(bool(stop)) or self.at.env_steps >= self.config.env_steps:
                        break
                    self._cycle()
                if self.at.saved_at != self.at.env_steps or self.schedule.pending or not self.checkpoints.steps():
                    self._save()
                return self._result(stop)
        finally:
            self._close()

    def _cycle(self) -> None:
        for learner in self._learners():
            learner.algo.progress = self.at.env_steps / self.config.env_steps
        env_steps, metrics = self.schedule.cycle(self.config.env_steps - self.at.env_steps)
        for m in metrics:
            self.recorder.add(m)
        self.at.env_steps = self.group.clock(self.at.env_steps, env_steps, self.sampler.episodes, self.learner.updates)
        for learner in self._learners():
            if learner.gradient_sync.skipped_in_a_row >= self.config.max_skipped_updates:
                raise self._diverged(learner)
        self._show_progress()

    def _show_progress(self, ahead: int = 0) -> None:
        """ahead: env steps of a cycle that is not over."""
        assert self._progress is not None
        self._progress.update(self.at.env_steps + ahead, self._online()["score"])

    def _learners(self) -> list[Learner]:
        return [self.learner] if self.secondary is None else [self.learner, self.secondary]

    def _diverged(self, learner: Learner) -> RunError:
        """What was learned since the last checkpoint is not trusted: nothing more is saved."""
        steps = self.checkpoints.steps()
        saved = f"the last good checkpoint is at {steps[-1]:,} env steps" if steps else "there is no checkpoint yet"
        line = (
            f"{learner.gradient_sync.skipped_in_a_row} updates in a row had a loss or gradient that is not finite, at "
            f"{self.at.env_steps:,} env steps; {saved}. Try a lower --algo.learning-rate, or look for NaN in the "
            "environment's rewards and observations"
        )
        self.run_folder.event(line)
        return RunError(line)

    def _housekeeping(self, stop: StopRequest) -> None:
        """Evaluation, row, checkpoint: whatever is due. Runs before every cycle, so also right after a resume."""
        at, done = self.at, self.at.env_steps >= self.config.env_steps
        evaluations: list[Evaluation] = []
        evaluated = False
        if self.config.evaluation.interval and self._due(at.evaluated_at, self.config.evaluation.interval, done):
            if self.group.rank == 0:
                evaluations = self._evaluate(stop)
            evaluated = self.group.agreed(bool(evaluations))
            if not evaluated:
                return  # asked to stop: they are played again after the resume
            self.evaluation, at.evaluated_at = next(iter(evaluations), None), at.env_steps
        if evaluated or self._due(at.logged_at, self.config.log_interval(), done):
            self._log(evaluations)
            at.logged_at = at.env_steps
        if self._due(at.saved_at, self.config.checkpoint_interval(), done):
            self._save()

    def _due(self, last: int, interval: int, done: bool) -> bool:
        now = self.at.env_steps
        if now == last:
            return False
        return done or (interval > 0 and now // interval > last // interval)

    def _online(self) -> dict[str, float]:
        return episode_metrics(list(self.sampler.episodes.recent))

    # -- what is due now and then ------------------------------------------------------------

    def _evaluate(self, stop: StopRequest) -> list[Evaluation]:
        """Of each learner's agent, on the same episodes' starts; none if asked to stop."""
        config, at = self.config, self.at
        assert self._progress is not None
        steps = min(config.evaluation.steps, max(1, (at.env_steps - at.evaluated_at) // 8))
        self._progress.pause("evaluating")
        evaluations = []

        def stopped() -> bool:
            self.group.beat()
            return bool(stop)

        for learner in self._learners():
            learner.gradient_sync.pull()
            evaluation = evaluate(
                learner.algo.agent.evaluating(config.evaluation.greedy),
                config,
                self.placement,
                steps=steps,
                seed=derived_seed(config.seed, _EVALUATION, at.env_steps),
                stop=stopped,
            )
            if evaluation is None:
                break
            evaluations.append(evaluation)
        self._progress.resume(at.env_steps)
        if len(evaluations) < len(self._learners()):
            return []
        for evaluation, whose in zip(evaluations, ("", "of the secondary learner "), strict=False):
            self._progress.say(
                f"evaluation {whose}at {at.env_steps:,} env steps: score {evaluation.mean:.2f} +- {evaluation.std:.2f} "
                f"over {len(evaluation.scores)} episodes"
            )
        return evaluations

    def _log(self, evaluations: list[Evaluation]) -> None:
        at, evaluation = self.at, evaluations[0] if evaluations else None
        assert self._progress is not None
        now = time.monotonic()
        wall = self._wall_before + now - self._began
        recent, episodes, updates = self.group.report(self.sampler.episodes, self.learner.updates)
        row: Row = {
            "env_steps": at.env_steps,
            "updates": updates,
            "episodes": episodes,
            **episode_metrics(recent),
            **self.recorder.means(),
            "learning_rate": self.learner.algo.learning_rate,
            "skipped_updates": self.learner.gradient_sync.skipped,
            "eval_score": evaluation.mean if evaluation else float("nan"),
            "eval_score_std": evaluation.std if evaluation else float("nan"),
            "eval_episodes": len(evaluation.scores) if evaluation else "",
            "eval_steps": sum(evaluation.lengths) if evaluation else "",
            "wall_s": round(wall, 3),
            "steps_per_s": round((at.env_steps - at.logged_at) / max(now - self._row_at, 1e-9), 1),
        }
        row |= {name: round(s, 3) for name, s in self.learner.gradient_sync.times.items()}
        if len(evaluations) > 1:
            row["secondary/eval_score"] = evaluations[1].mean
        self._row_at = now
        for sink in self._sinks:
            sink.write(row)
        if evaluation:
            self._write_evaluation(evaluation)

    def _write_evaluation(self, evaluation: Evaluation) -> None:
        self.run_folder.write_json(
            f"evaluations/{self.at.env_steps:012d}.json", {"env_steps": self.at.env_steps, **evaluation.to_dict()}
        )

    def _save(self) -> None:
        self.at.saved_at = self.at.env_steps
        with self.group.saving():
            self.checkpoints.save(self.at.env_steps, self.state_dict())

    # -- beginning and end ------------------------------------------------------------

    def state_dict(self) -> dict[str, Any]:
        at = self.at
        return {
            "config": {"algorithm": self.config.algorithm, "env": self.config.env.to_dict()},
            "env_steps": at.env_steps,
            "evaluated_at": at.evaluated_at,
            "logged_at": at.logged_at,
            "rows": self._csv.rows,
            "recorder": self.recorder.state_dict(),
            "learner": self.learner.state_dict(),
            "secondary": self.secondary.state_dict() if self.secondary is not None else None,
            "sampler": self.sampler.state_dict(),
            "schedule": self.schedule.state_dict(),
            "torch_rng": torch.get_rng_state(),
        }

    def _restore(self, state: dict[str, Any]) -> None:
        at = self.at
        at.env_steps = at.saved_at = state["env_steps"]
        at.evaluated_at, at.logged_at = state["evaluated_at"], state["logged_at"]
        self.recorder.load_state_dict(state["recorder"])
        self.learner.load_state_dict(state["learner"])
        if self.secondary is not None:
            self.secondary.load_state_dict(state["secondary"])
        self.sampler.load_state_dict(state["sampler"])
        self.schedule.load_state_dict(state.get("schedule"))
        torch.set_rng_state(state["torch_rng"])

    def _open(self) -> None:
        self.checkpoints.clean()
        if self._state is not None:
            self._restore(self._state)
        rows = self._state["rows"] if self._state is not None else 0
        self._csv = CsvSink(self.run_folder.path / "metrics.csv", rows)
        self._wall_before = float(self._csv.last.get("wall_s") or 0.0)
        self._sinks.append(self._csv)
        self._sinks += tensorboard_sink(self.config, self.run_folder.path, self.at.env_steps)
        self._sinks += wandb_sink(self.config, self.run_folder.path, self._event)
        self._state = None  # a checkpoint's tensors need not stay in memory
        name = self.config.env.game or self.config.env.id
        display = ProgressDisplay if self.group.rank == 0 else Silent
        self._progress = display(self.config.env_steps, self.at.env_steps, f"{self.config.algorithm} {name}")
        self.sampler.start()
        self.group.opened(self.learner.gradient_sync, self.at.env_steps)
        self._began = self._row_at = time.monotonic()
        self._progress.resume(self.at.env_steps)

    def _event(self, line: str) -> None:
        self.run_folder.event(line)
        if self._progress is not None:
            self._progress.say(line)
        else:
            print(line, flush=True)

    def _result(self, stop: StopRequest) -> Result:
        wall = self._wall_before + time.monotonic() - self._began
        score = episode_metrics(self.group.report(self.sampler.episodes, self.learner.updates)[0])["score"]
        return Result(self.at.env_steps, score, self.evaluation, stop.exit_code, wall)

    def _close(self) -> None:
        self.schedule.close()
        self.sampler.close()
        for sink in self._sinks:
            sink.close()
        if self._progress is not None:
            self._progress.close()


def load_agent(config: TrainConfig, state: dict[str, Any], spec: EnvSpec, device: str = "cpu") -> Agent:
    """The agent of a checkpoint, for evaluation and videos."""
    return Learner(config, spec, device, seed=0).load_agent(state["learner"])
