"""Trains, loads, resumes, evaluates and watches runs from Python."""

import gc
import os
import signal
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

import numpy as np
import torch

from accel_rl.api.export import export
from accel_rl.api.keywords import What, settings, with_values
from accel_rl.api.launch import run_new
from accel_rl.api.notebook import Picture, Video, curve, run_html
from accel_rl.api.options import EvaluateOptions, ExportOptions, ResumeOptions, WatchOptions, from_keywords, keywords_of
from accel_rl.api.resume import resume
from accel_rl.api.suite_models import run_path
from accel_rl.api.trained_agent import TrainedPolicy, evaluate, trained_agent, watch
from accel_rl.metrics.metrics_file import number, read_metrics
from accel_rl.metrics.progress import quiet_run
from accel_rl.metrics.sinks import Sink
from accel_rl.run.run_folder import RunFolder
from accel_rl.settings.changeable import changed_settings
from accel_rl.settings.train import TrainConfig, read_settings
from accel_rl.text.errors import ConfigError
from accel_rl.training.callback import Callback
from accel_rl.training.evaluation import Evaluation, Result
from accel_rl.training.observers import with_observers

if TYPE_CHECKING:
    from accel_rl.api.train_settings import ResumeSettings, TrainSettings


# Training needs gradients, even if the caller has disabled them.
@torch.inference_mode(False)
@torch.enable_grad()
def train(
    what: What = "a2c",
    *,
    env: str | Callable[..., Any] | None = None,
    run_dir: str | os.PathLike[str] | None = None,
    callbacks: Iterable[Callback | type[Callback] | str] = (),
    sinks: Iterable[Sink | type[Sink] | str] = (),
    init: "str | os.PathLike[str] | Run" = "",
    quiet: bool = False,
    **values: "Unpack[TrainSettings]",
) -> "Run":
    """Train an agent, and return the run.

        run = accel_rl.train("ppo", game="pong", env_steps=1e6)
        run = accel_rl.train(PPO.Config(learning_rate=1e-3), env="CartPole-v1", envs=8, seed=1)

    `what` is an algorithm's name, class or settings, or a `TrainConfig`. `env` is the id of a Gymnasium environment, or
    a function that creates an environment; an Atari game is given as `game="pong"`. `run_dir` is the new folder of the
    run. `callbacks` and `sinks` are objects, classes or names (`accel_rl.Callback`, `accel_rl.Sink`). `init` is the
    run, or the folder of a run or a model, with whose network training begins. A `quiet` run prints only warnings and
    errors. `values` are all other settings, by the names of `accel-rl train ppo --help`, with two underscores in place
    of a point: `evaluation__interval=10_000`. Raises ConfigError for wrong settings, before any process starts, and
    RunError if the run cannot continue. At Ctrl-C the run saves a checkpoint, then raises KeyboardInterrupt; at SIGTERM
    the run raises SystemExit.
    `accel_rl.Run(path).resume()` continues a stopped run.
    """
    chosen: dict[str, Any] = dict(values)
    if init:
        chosen["init"] = os.fspath(init.path if isinstance(init, Run) else init)
    config = settings(what, env, chosen)
    if not isinstance(run_dir, str | os.PathLike | None) or run_dir == "":
        raise ConfigError(f"run_dir={run_dir!r}: must be the path of a folder")
    path = Path(run_dir).expanduser() if run_dir is not None else None
    config, objects = with_observers(config, callbacks, sinks)
    with quiet_run(quiet):
        run, result = run_new(config, path, objects)
    release_memory()
    raise_if_stopped(result)
    return Run(run.path, result, trust=True)


def release_memory() -> None:
    """The replay, the networks and the environments of a training refer to each other, and Python would otherwise
    release such objects only after many trainings."""
    gc.collect()


def raise_if_stopped(result: Result) -> None:
    """If a signal has stopped the run, raise KeyboardInterrupt (Ctrl-C) or SystemExit with exit code 143 (SIGTERM). The
    run has then already saved a checkpoint."""
    if result.exit_code == 128 + signal.SIGINT:
        raise KeyboardInterrupt
    if result.exit_code:
        raise SystemExit(result.exit_code)


class Run:
    """A training run, which has written its files into a folder. The run's files are read at each access, so a run can
    be inspected while it trains."""

    def __init__(self, path: str | os.PathLike[str], result: Result | None = None, *, trust: bool = False):
        """`path` is the folder of a run or of a model, or a trained agent of the suite, such as suite/ppo-breakout.
        `result` is the training result, if this process trained the run. If `trust` is true, the code that config.json
        names as module:Class may be imported. Raises ConfigError if the folder contains no run."""
        self.path = run_path(path)
        self.result = result
        self.trust = trust
        read_settings(self.path)

    @classmethod
    def load(cls, path: str | os.PathLike[str], *, trust: bool = False) -> "Run":
        """Same as `Run(path)`. Raises ConfigError if the folder contains no run."""
        return cls(path, trust=trust)

    def _open(self, trust: bool = False) -> tuple[RunFolder, TrainConfig]:
        return RunFolder.open(self.path, self.trust or trust)

    def __repr__(self) -> str:
        return f"Run({str(self.path)!r})"

    def _repr_html_(self) -> str:
        return run_html(self.path, self.config, self.metrics)

    @property
    def config(self) -> TrainConfig:
        return self._open()[1]

    @property
    def metrics(self) -> dict[str, np.ndarray]:
        """The columns of metrics.csv by name, [rows] float64 each. Missing values of a column are NaN.
        `pandas.DataFrame(run.metrics)` builds a table of the metrics."""
        try:
            table = read_metrics(self.path / "metrics.csv")
        except FileNotFoundError:
            return {}
        return {name: np.array([number(row[name]) for row in table.rows]) for name in table.columns if table.rows}

    @torch.inference_mode(False)
    @torch.enable_grad()
    def resume(
        self,
        env_steps: float | None = None,
        *,
        callbacks: Iterable[Callback | type[Callback] | str] | None = None,
        sinks: Iterable[Sink | type[Sink] | str] | None = None,
        **options: "Unpack[ResumeSettings]",
    ) -> "Run":
        """Continue the run from its newest checkpoint, in the same folder, and return the run with its result.
        `env_steps` is the new length of the run. `options` are those of `accel-rl resume`: checkpoint, cores, device,
        engine, quiet, trust, and settings that a resumed run may change, such as learning_rate. `callbacks` and
        `sinks` replace those that config.json names. Raises ConfigError or RunError."""
        flags = keywords_of(ResumeOptions)
        chosen = from_keywords(
            ResumeOptions, {"env_steps": env_steps, **{k: v for k, v in options.items() if k in flags}}
        )
        run, begun = self._open(chosen.trust)
        changes = changed_settings(begun, with_values(begun, {k: v for k, v in options.items() if k not in flags}))
        begun = replace(
            begun,
            callback=begun.callback if callbacks is None else (),
            sink=begun.sink if sinks is None else (),
        )
        begun, objects = with_observers(begun, callbacks or (), sinks or ())
        with quiet_run(chosen.quiet):
            self.result = resume(run, begun, chosen, changes, objects)
        release_memory()
        raise_if_stopped(self.result)
        return self

    def evaluate(self, episodes: int = 30, **options: Any) -> Evaluation:
        """Play episodes with the newest agent, and return their scores: `.mean`, `.std`, `.scores`, `.protocol`.
        `options` are those of `accel-rl evaluate`: seed, greedy, best, checkpoint, parallel, starts, device, backend
        ... Raises ConfigError."""
        chosen = from_keywords(EvaluateOptions, {"episodes": episodes, **options})
        return evaluate(*self._open(chosen.trust), chosen)[0]

    @property
    def agent(self) -> TrainedPolicy:
        """The run's newest agent: `run.agent.act(obs)` returns actions."""
        return self.load_agent()

    def load_agent(
        self, checkpoint: str = "", *, best: bool = False, greedy: bool = False, seed: int = 0, device: str = ""
    ) -> TrainedPolicy:
        """Load the newest agent, the agent of the folder `checkpoint`, or the agent with the best evaluation. The agent
        acts on `device`, by default on the run's device. If this machine does not have the run's device, another device
        is chosen and logged."""
        run, trained = self._open()
        config, _, agent, _ = trained_agent(run, trained, checkpoint, greedy, best, device)
        return TrainedPolicy(agent, config.spec, seed)

    def export(self, out: str | os.PathLike[str], **options: Any) -> "Run":
        """Write the newest network as a model that other programs can load, and return the model. `out` is the model's
        new folder. `options` are those of `accel-rl export`: checkpoint, best, onnx. An exported model can be evaluated
        and watched, and its `agent` can act, but a model cannot be resumed. Raises ConfigError or RunError."""
        chosen = from_keywords(ExportOptions, {"out": str(out), **options})
        return Run(export(*self._open(chosen.trust), chosen)[0], trust=self.trust)

    def plot(self, y: str = "score", x: str = "env_steps") -> Picture:
        """A picture, displayed by a notebook, of a column of metrics.csv over another column or over minutes. Raises
        ConfigError."""
        return curve(self.path, self.config, y, x)

    def watch(self, out: str | os.PathLike[str] | None = None, **options: Any) -> Video:
        """Make a video of an episode, .mp4 or .gif, and return its path, which a notebook shows as the video. `options`
        are those of `accel-rl watch`: steps, seed, greedy, best, checkpoint, device, backend. Raises ConfigError."""
        chosen = from_keywords(WatchOptions, {"out": "" if out is None else str(out), **options})
        return Video(watch(*self._open(chosen.trust), chosen)[0])
