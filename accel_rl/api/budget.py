"""Chooses the length of a run by time (--budget 1h). A trial run of the same settings measures env steps/s."""

import contextlib
import io
import math
import os
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from accel_rl.algos.replay_algorithm import ReplayAlgorithmConfig
from accel_rl.api.launch import run_new
from accel_rl.api.preparation import checked
from accel_rl.data.rollout import Rollout
from accel_rl.metrics.progress import tell
from accel_rl.planning.plan import RunPlan
from accel_rl.run.run_folder import RunFolder
from accel_rl.settings.train import TrainConfig
from accel_rl.text.errors import ConfigError, RunError
from accel_rl.text.notes import collected
from accel_rl.training.callback import Callback, Training
from accel_rl.training.observers import Observers

TRIAL_START = 2_000
"""Maximum number of env steps of random play in a trial of Q-learning."""
LIMIT_S = 120.0
"""Maximum number of seconds of a trial before its first update."""
ENDLESS = 10**12


class Rates(NamedTuple):
    """Rates in env steps/s. `playing` is the rate of the initial random play, before the first update, and infinite if
    unknown."""

    learning: float
    playing: float = math.inf


class Trial(Callback):
    """Measures the env steps/s of a trial run, and then ends the trial run."""

    def __init__(self, seconds: float):
        """The env steps/s with updates are measured for `seconds`. The measurement begins half of this time after the
        first update, because the first updates compile kernels and capture graphs."""
        self.seconds = seconds
        self.env_steps = 0
        self.played: list[tuple[float, int]] = []  # (time, env steps) of rollouts before the first update
        self.learned: list[tuple[float, int]] = []  # (time, env steps) at the beginning of each cycle with updates
        self._updates = 0

    def on_rollout(self, training: Training, rollout: Rollout) -> bool:
        now, updates = time.monotonic(), training.updates
        self.env_steps += rollout.env_steps * training.config.distributed.size
        if not updates:
            self.played.append((now, self.env_steps))
            return now - self.played[0][0] < LIMIT_S
        if updates != self._updates:
            self._updates = updates
            self.learned.append((now, self.env_steps))
        warm = self._warm()
        return len(warm) < 2 or warm[-1][0] - warm[0][0] < self.seconds

    def _warm(self) -> list[tuple[float, int]]:
        return [point for point in self.learned if point[0] - self.learned[0][0] >= self.seconds / 2]

    def rates(self) -> Rates:
        """Raises RunError if the trial made no updates."""
        if len(warm := self._warm()) < 2:
            raise RunError(f"--budget: the trial run made no update in {LIMIT_S:.0f} s; give --env-steps instead")
        return Rates(_rate(warm), _rate(self.played[1:]) if len(self.played) > 2 else math.inf)


def _rate(points: list[tuple[float, int]]) -> float:
    (began, first), (ended, last) = points[0], points[-1]
    return (last - first) / max(ended - began, 1e-9)


def with_budget(config: TrainConfig, budget: str, seconds: float, path: Path | None) -> TrainConfig:
    """Return the settings with the run's length: the number of env steps that a run makes in `seconds`. `budget` is the
    duration as the user has written it, for error messages. Raises ConfigError for impossible settings, before the
    trial."""
    if config.mode.over_ray or "RANK" in os.environ:
        raise ConfigError(f"--budget {budget}: only on one machine, without --cluster and torchrun; give --env-steps")
    if path is not None:
        RunFolder.check_new(path)
    RunPlan.resolve(checked(config))
    trial = Trial(min(max(seconds / 50, 3.0), 10.0))
    tell(f"--budget {budget}: a trial run of about {2 * trial.seconds:.0f} s measures env steps/s")
    with (
        tempfile.TemporaryDirectory() as folder,
        collected(),
        contextlib.redirect_stdout(io.StringIO()),
        contextlib.redirect_stderr(io.StringIO()),
    ):
        _, result = run_new(trial_of(config), Path(folder) / "trial", Observers((trial,)))
    if result.exit_code:
        raise SystemExit(result.exit_code)
    rates, random = trial.rates(), _random_steps(config)
    env_steps = env_steps_in(seconds, rates, random)
    play = f", after {random:,} of random play at {rates.playing:,.0f}" if random and rates.playing < math.inf else ""
    tell(
        f"--budget {budget}: {env_steps:,} env steps at {rates.learning:,.0f} env steps/s measured{play}; evaluations "
        "take additional time"
    )
    return replace(config, env_steps=env_steps)


def trial_of(config: TrainConfig) -> TrainConfig:
    """The settings of the trial run, which has no evaluations and outputs, and a short initial random play."""
    algo = config.algo
    if isinstance(algo, ReplayAlgorithmConfig):
        algo = replace(algo, replay=replace(algo.replay, start=min(algo.replay.start, TRIAL_START)))
    return replace(
        config,
        algo=algo,
        env_steps=ENDLESS,
        evaluation=replace(config.evaluation, interval=0),
        checkpoint=replace(config.checkpoint, interval=0),
        log=replace(config.log, tensorboard=False),
        callback=(),
        sink=(),
        wandb="disabled",
        run_dir="",
    )


def _random_steps(config: TrainConfig) -> int:
    return config.algo.replay.start if isinstance(config.algo, ReplayAlgorithmConfig) else 0


def env_steps_in(seconds: float, rates: Rates, random_steps: int = 0) -> int:
    """Return the number of env steps of a run of `seconds` that begins with `random_steps` random steps. The number is
    rounded down to three digits."""
    played_s = random_steps / rates.playing
    if seconds <= played_s:
        steps = seconds * rates.playing
    else:
        steps = random_steps + (seconds - played_s) * rates.learning
    unit = 10 ** max(0, len(str(int(steps))) - 3)
    return max(1, int(steps) // unit * unit)
