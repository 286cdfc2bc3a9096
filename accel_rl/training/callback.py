"""A callback is a user's code that runs inside a training run. This module calls the callbacks of a run.

    class Report(Callback):
        def on_episode(self, training, episode):
            training.log("longest", episode.length)          a column of metrics.csv
            return episode.score < 500                       False ends the run, which saves a checkpoint

The order of the calls, in a run of any mode:

    on_start                                    before the first rollout of this process
    for each cycle of the schedule
        on_rollout, on_episode ...              after each rollout, and after each episode that ended in the rollout
        on_update                               after the cycle's updates
        on_evaluation                           if an evaluation is due; before the row of metrics
        on_checkpoint                           if a checkpoint is due; after the row of metrics
    on_end                                      after the last checkpoint; not after an error

A run of several ranks calls its callbacks on rank 0. A method that no callback overrides takes no time.
"""

import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, cast

import numpy as np
from torch import Tensor

from accel_rl.agents.agent import Agent
from accel_rl.data.rollout import Rollout
from accel_rl.metrics.recorder import Recorder
from accel_rl.metrics.sinks import Row
from accel_rl.metrics.update_metrics import UpdateMetrics
from accel_rl.planning.plan import RankPlan
from accel_rl.run.run_folder import RunFolder
from accel_rl.samplers.episodes import Episode, Recent, episode_metrics
from accel_rl.samplers.rollout_sampler import RolloutSampler
from accel_rl.settings.resolved import Resolved
from accel_rl.text.errors import ConfigError, RunError, nearest
from accel_rl.training.evaluation import Evaluation
from accel_rl.training.learner import Learner
from accel_rl.training.reporter import Counters


class Training:
    """The running training run, as a callback receives it. Callbacks may read all attributes of `Training`.

    `config` has the settings of rank 0. `plan` has the placement of rank 0, such as its device.
    """

    def __init__(
        self,
        config: Resolved,
        plan: RankPlan | None,
        run: RunFolder,
        counters: Counters,
        counts: Callable[[], tuple[Sequence[Recent], int, int]],
        learner: Learner | None = None,
    ):
        """`counts` returns the recent episodes, the number of episodes and the number of updates.
        `learner` is None if this process has no network."""
        self.config = config
        self.plan = plan
        self.metrics = Recorder()
        self._run = run
        self._counters = counters
        self._counts = counts
        self._learner = learner

    @property
    def path(self) -> Path:
        return self._run.path

    @property
    def env_steps(self) -> int:
        """Number of env steps of all ranks so far, without the current cycle."""
        return self._counters.env_steps

    @property
    def updates(self) -> int:
        """Number of updates so far, without the current cycle."""
        return self._counts()[2]

    @property
    def episodes(self) -> int:
        """Number of episodes that have ended in rank 0's environments."""
        return self._counts()[1]

    @property
    def recent(self) -> list[Recent]:
        """(score, length, index of the game) of the last --log.window episodes (times the number of games) of rank 0's
        environments, oldest first. The index is 0 unless the agent plays several games (`config.env.games`)."""
        return list(self._counts()[0])

    @property
    def score(self) -> float:
        """Mean score of the `recent` episodes, or NaN before the first episode ends. If the agent plays several games,
        the mean over the games in percent of human, or NaN before an episode of each game has ended."""
        return self.mean_score(self.recent)

    def mean_score(self, episodes: Sequence[Recent]) -> float:
        """The mean score of some of the `recent` episodes, computed as in `score`."""
        return episode_metrics(episodes, self.config.env.games)["score"]

    @property
    def learner(self) -> Learner:
        """The learner of rank 0, with its network, optimizer and algorithm. Raises ConfigError with --cluster gorila,
        whose driver has no learner."""
        if self._learner is None:
            raise ConfigError("--cluster gorila: callbacks cannot read the agent, which is in other processes")
        return self._learner

    @property
    def agent(self) -> Agent:
        """The agent that is trained. With --schedule concurrent, `on_rollout` and `on_episode` must not read the
        agent's network, because another thread trains the network at the same time. Raises ConfigError with --cluster
        gorila."""
        return self.learner.algo.agent

    def log(self, name: str, value: Tensor | float) -> None:
        """Add a value to a metric. The value is a number, or a tensor with one element, which may be on a GPU. The next
        row of metrics.csv contains the mean of the values since the last row. Raises ConfigError if another column has
        this name."""
        self.metrics.add(UpdateMetrics.of({name: value}))

    def event(self, line: str) -> None:
        self._run.event(line)


class Callback:
    """A subclass overrides the methods that it needs.

    A method that returns False ends the run, which saves a checkpoint. The run ignores any other result of a method. An
    error in a method ends the run with exit code 1, and the error message names the callback and the method.
    """

    @classmethod
    def check_settings(cls, config: Resolved) -> None:
        """Raise ConfigError for settings with which the callback cannot work. `check_settings` is called before the
        run's folder is created."""

    def on_start(self, training: Training) -> bool | None:
        """Called once in each process of the run, before its first rollout."""

    def on_rollout(self, training: Training, rollout: Rollout) -> bool | None:
        """Called after each rollout [T, B] of rank 0, before the algorithm uses it. The rollout's memory is reused by
        later rollouts, so a callback must copy what it stores."""

    def on_episode(self, training: Training, episode: Episode) -> bool | None:
        """Called for each episode that has ended in rank 0's environments: `score`, `length` in agent steps, and `b`,
        the index of its environment."""

    def on_update(self, training: Training, updates: list[UpdateMetrics]) -> bool | None:
        """Called after the updates of a cycle, if the cycle had any updates. Each item of `updates` contains the
        metrics of one or several updates. The item's method `means()` synchronizes with a GPU."""

    def on_evaluation(self, training: Training, evaluation: Evaluation) -> bool | None:
        """Called after each evaluation, which has the attributes `mean`, `std`, `scores` and `lengths`."""

    def on_checkpoint(self, training: Training, path: Path) -> bool | None:
        """Called after each checkpoint is written to the folder `path`."""

    def on_end(self, training: Training) -> bool | None:
        """Called when the run ends or stops, after its last checkpoint."""


METHODS = tuple(name for name in vars(Callback) if name.startswith("on_"))
GORILA = ("on_start", "on_evaluation", "on_checkpoint", "on_end")
"""Methods that the driver of --cluster gorila calls. Rollouts and updates are made in other processes, so the driver
does not call methods such as `on_rollout` and `on_update`."""


def check_methods(cls: type[Callback], on_gorila: bool = False) -> None:
    """Raise ConfigError if a callback has a method that no run calls, such as a misspelled one."""
    for name in dir(cls):
        if name.startswith("on_") and name not in METHODS:
            raise ConfigError(f"callback {cls.__name__}: no run calls {name}{nearest(name, METHODS)}")
        if on_gorila and name in METHODS and name not in GORILA and _overrides(cls, name):
            raise ConfigError(f"callback {cls.__name__}: --cluster gorila calls only {', '.join(GORILA)}, not {name}")


def _overrides(callback: Any, method: str) -> bool:
    function = getattr(callback, method)
    return getattr(function, "__func__", function) is not getattr(Callback, method)


class Callbacks:
    def __init__(self, callbacks: Sequence[Callback], training: Training):
        self.training = training
        self.stopped = False  # `stopped` is true after a callback's method has returned False.
        self._methods = {
            name: [callback for callback in callbacks if _overrides(callback, name)] for name in METHODS
        }  # fmt: skip

    def handle(self, method: str) -> bool:
        return bool(self._methods[method])

    def __call__(self, method: str, *args: Any) -> None:
        """Call `method` of all callbacks. If a callback raises an error, raise a RunError that names the callback and
        the method."""
        for callback in self._methods[method]:
            name = f"{type(callback).__name__}.{method}"
            try:
                result = getattr(callback, method)(self.training, *args)
            except Exception as error:
                raise failed(f"callback {name}", error) from error
            if isinstance(result, bool | np.bool_) and not result:
                self._stop(name)

    def _stop(self, name: str) -> None:
        if not self.stopped:
            self.stopped = True
            self.training.event(f"callback {name} ends the run at {self.training.env_steps:,} env steps")

    def row(self, columns: Sequence[str]) -> Row:
        """Means of the metrics that callbacks have logged since the last row. Raises RunError if a metric has the name
        of another column."""
        means = self.training.metrics.means()
        if twice := means.keys() & set(columns):
            raise RunError(f"callbacks: a row has a column {min(twice)!r} of its own; give the metric another name")
        return dict(means)

    def observed(self, sampler: RolloutSampler) -> RolloutSampler:
        """If a callback handles rollouts or episodes, the returned sampler calls the callbacks after each rollout."""
        if not self._methods["on_rollout"] and not self._methods["on_episode"]:
            return sampler
        return cast(RolloutSampler, _ObservedSampler(sampler, self))


class _ObservedSampler:
    def __init__(self, sampler: RolloutSampler, callbacks: Callbacks):
        self._sampler = sampler
        self._callbacks = callbacks

    def collect(self, agent: Agent) -> Rollout:
        rollout = self._sampler.collect(agent)
        self._callbacks("on_rollout", rollout)
        for episode in self._sampler.finished:
            self._callbacks("on_episode", episode)
        return rollout

    def __getattr__(self, name: str) -> Any:
        return getattr(self._sampler, name)


def failed(name: str, error: Exception) -> RunError:
    """The error with which a run ends if a user's object or a device, described by `name`, raised `error`. The error's
    note is the traceback, which the run writes to events.log."""
    result = RunError(f"{name} failed: {type(error).__name__}: {' '.join(str(error).split())}")
    result.add_note("".join(traceback.format_exception(error)))
    return result
