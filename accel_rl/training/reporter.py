"""The reporter writes a run's metrics to sinks such as metrics.csv, and displays progress and events."""

from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass

from accel_rl.metrics.progress import ProgressDisplay, Silent, is_quiet
from accel_rl.metrics.recorder import Recorder
from accel_rl.metrics.sinks import CsvSink, Row, Sink, tensorboard_sink
from accel_rl.metrics.wandb import wandb_sink
from accel_rl.run.run_folder import RunFolder
from accel_rl.run.run_time import RunTime
from accel_rl.samplers.episodes import EpisodeTracker, Recent, episode_metrics
from accel_rl.settings.resolved import Resolved
from accel_rl.text.output import print_text
from accel_rl.training.context import RankContext
from accel_rl.training.evaluation import Evaluation
from accel_rl.training.learner import Learner


@dataclass(slots=True)
class Counters:
    """The current number of env steps of the run, and the numbers of env steps at the last evaluation, report and
    checkpoint. `logged_episodes` is the number of episodes at the last report."""

    env_steps: int = 0
    evaluated_at: int = 0
    logged_at: int = 0
    logged_episodes: int = 0
    saved_at: int = 0

    def due(self, last: int, interval: int, done: bool) -> bool:
        """Whether an activity, such as an evaluation, is due. An activity is due every `interval` env steps and at the
        end of the run (`done`), or with `interval` 0 only at the end. `last` is the number of env steps at which the
        activity was last due."""
        if self.env_steps == last:
            return False
        return done or (interval > 0 and self.env_steps // interval > last // interval)


class Reporter:
    """Writes rows of metrics to sinks, and events to events.log. Only the reporter of rank 0 displays progress."""

    def __init__(
        self, config: Resolved, run: RunFolder, context: RankContext, sinks: Sequence[Sink] = (), device: str = "cpu"
    ):
        """`sinks` are used in addition to the sinks that the settings enable. `device` is the device that trains."""
        self.config = config
        self.run_folder = run
        self.context = context
        self.recorder = Recorder()
        self._progress: ProgressDisplay | None = None
        self._sinks: list[Sink] = []
        self._further_sinks = sinks
        self._csv: CsvSink | None = None
        self.time = RunTime(config.mode.is_alone, device)

    def open(self, env_steps: int, rows: int, updates: int | None = None) -> None:
        """`rows` is the number of valid rows of metrics.csv; later rows are overwritten. If the run ends after a number
        of updates, `updates` is the number of updates so far, which the progress display counts."""
        self.run_folder.hold()
        self._csv = CsvSink(self.run_folder.path / "metrics.csv", rows)
        if self._csv.rows < rows:
            self.event(
                f"metrics.csv has {self._csv.rows:,} of the {rows:,} rows that were written before the checkpoint; the "
                "others are lost"
            )
        self._sinks.append(self._csv)
        self._sinks += tensorboard_sink(self.config, self.run_folder.path, env_steps)
        self._sinks += wandb_sink(self.config, self.run_folder.path)
        for sink in self._further_sinks:
            sink.open(self.config.to_dict(), self.run_folder.path, env_steps)
            self._sinks.append(sink)
        display = Silent if self.context.rank or is_quiet() else ProgressDisplay
        label = f"{self.config.algorithm} {self.config.env.label}"
        if updates is None:
            of_score = " % of human" if len(self.config.env.games) > 1 else ""
            self._progress = display(self.config.env_steps, env_steps, label, of_score=of_score)
        else:
            self._progress = display(self.config.gorila.updates or 1, updates, label, "updates")

    def begin(self, env_steps: int) -> None:
        self.time.begin()
        self.resume(env_steps)

    @property
    def rows(self) -> int:
        return self._csv.rows if self._csv is not None else 0

    def sync(self) -> None:
        """Write the rows of metrics.csv to disk, before a checkpoint records their number."""
        if self._csv is not None:
            self._csv.sync()

    def progress(self, done: int, recent: Iterable[Recent]) -> None:
        """Display the progress. `recent` contains recent training episodes. Nothing is displayed before `begin`."""
        if self._progress is not None:
            self._progress.update(done, self._means(list(recent))["score"])

    def _means(self, recent: list[Recent]) -> dict[str, float]:
        return episode_metrics(recent, self.config.env.games)

    def evaluating(self) -> None:
        """Exclude the time until `resume` from the rate of steps/s."""
        assert self._progress is not None
        self.time.evaluate()
        self._progress.pause("evaluating")

    def resume(self, env_steps: int) -> None:
        assert self._progress is not None
        self.time.train()
        self._progress.resume(env_steps)

    def record(self, line: str) -> None:
        self.run_folder.event(line)
        for sink in self._sinks:
            sink.event(line)

    def event(self, line: str) -> None:
        """Write an unusual event to events.log, and display the event."""
        self.record(line)
        if self._progress is not None:
            self._progress.say(line)
        else:
            print_text(line)

    def evaluated(self, env_steps: int, evaluations: list[Evaluation]) -> None:
        """Display evaluations: first that of the learner, then that of the secondary learner."""
        assert self._progress is not None
        for evaluation, whose in zip(evaluations, ("", "of the secondary learner "), strict=False):
            self._progress.evaluated(f"evaluation {whose}at {env_steps:,} env steps: {evaluation.text}")

    def row(
        self,
        counters: Counters,
        learner: Learner,
        episodes: EpisodeTracker,
        evaluations: list[Evaluation],
        further: Callable[[Sequence[str]], Row] = lambda columns: {},
        acting_age: float = 0.0,
    ) -> None:
        """Write the metrics since the last row to every sink, and evaluations to their own file. `further` returns the
        metrics of callbacks, given the names of the row's other columns. `acting_age` is the schedule's attribute."""
        recent, episodes_of_all, updates = self.context.clock.report(episodes, learner.updates)
        row: Row = {
            "updates": updates,
            "episodes": episodes_of_all,
            **self._means(recent),
            "new_score": self._new_score(recent, episodes_of_all - counters.logged_episodes),
            **{f"info/{name}": mean for name, mean in episodes.means().items()},
            **learner.columns(),
            "acting_age": acting_age,
            **self.context.clock.means(self.recorder.means()),
            "skipped_updates": learner.gradient_sync.skips.total,
        }
        row |= further(list(row))
        counters.logged_episodes = episodes_of_all
        self.write(counters, row, evaluations, learner.gradient_sync.times)

    def _new_score(self, recent: list[Recent], ended: int) -> float:
        """Mean score of the episodes that ended since the last row, or NaN if no episode of a game ended. With several
        ranks the score is NaN, because the ranks' recent episodes have no common order. `recent` has at most
        --log.window episodes, times the number of games."""
        new = min(ended, len(recent))
        if new <= 0 or self.config.distributed.size > 1:
            return float("nan")
        return self._means(recent[-new:])["score"]

    def write(self, counters: Counters, values: Row, evaluations: list[Evaluation], times: dict[str, float]) -> None:
        """Write a row of metrics. `times` maps each activity to the seconds spent on it."""
        evaluation = evaluations[0] if evaluations else None
        row: Row = {
            "env_steps": counters.env_steps,
            **values,
            "eval_score": evaluation.mean if evaluation else float("nan"),
            "eval_score_std": evaluation.std if evaluation else float("nan"),
            "eval_episodes": len(evaluation.scores) if evaluation else "",
            "eval_steps": sum(evaluation.lengths) if evaluation else "",
            **({f"eval_score/{game}": mean for game, mean in evaluation.by_game.items()} if evaluation else {}),
            **self.time.row(counters.env_steps - counters.logged_at),
        }
        row |= {name: round(s, 3) for name, s in times.items()}
        if len(evaluations) > 1:
            row["secondary/eval_score"] = evaluations[1].mean
        if self._csv is not None:
            self._csv.path = self.run_folder.path / "metrics.csv"
        for sink in self._sinks:
            sink.write(row)
        if evaluation:
            file = f"evaluations/{counters.env_steps:012d}.json"
            self.run_folder.write_json(file, {"env_steps": counters.env_steps, **evaluation.to_dict()})

    def close(self) -> None:
        with ExitStack() as closing:  # All parts are closed, even if a user's sink raises an error.
            closing.callback(self.run_folder.release)
            closing.callback(self.time.close)
            if self._progress is not None:
                closing.callback(self._progress.close)
            sinks, self._sinks = self._sinks, []
            for sink in reversed(sinks):
                closing.callback(sink.close)
