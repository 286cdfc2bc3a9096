"""The checkpoints of one rank contain all state that is needed to continue the run bit for bit."""

import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import torch

from accel_rl.checkpoints.checkpoint import Checkpoints
from accel_rl.checkpoints.generator_state import restore_default
from accel_rl.checkpoints.writer import CheckpointWriter
from accel_rl.machine.devices import Device
from accel_rl.run.run_folder import RunFolder
from accel_rl.samplers.rollout_sampler import RolloutSampler
from accel_rl.settings.resolved import Resolved
from accel_rl.text.errors import RunError
from accel_rl.training.callback import Callbacks
from accel_rl.training.context import RankContext
from accel_rl.training.learner import Learner
from accel_rl.training.reporter import Counters, Reporter
from accel_rl.training.schedule import Schedule


@dataclass
class Saver:
    """Saves and restores the state of a rank's parts (learner, sampler, replay, counters)."""

    config: Resolved
    run_folder: RunFolder
    context: RankContext
    counters: Counters
    learner: Learner
    secondary: Learner | None
    sampler: RolloutSampler
    schedule: Schedule
    reporter: Reporter
    callbacks: Callbacks

    def __post_init__(self) -> None:
        self.checkpoints = self._checkpoints()
        self._writer: CheckpointWriter | None = None
        self._saved_s = time.monotonic()

    def _checkpoints(self) -> Checkpoints:
        # Rank 0 writes its part of a checkpoint last.
        # Other ranks keep one more checkpoint, in case rank 0 fails before writing.
        keep = self.config.checkpoint.keep + bool(self.context.rank)
        return Checkpoints(self.run_folder.path / "checkpoints", keep)

    @property
    def is_due(self) -> bool:
        return self.config.checkpoint.is_due(time.monotonic() - self._saved_s)

    def save(self) -> None:
        """Begin to write a checkpoint in a thread. `save` waits for the complete checkpoint only if ranks save
        together, or if the run has callbacks for checkpoints, which may read the run's current state."""
        self.finish()
        self.run_folder.follow()
        if self.run_folder.moved:
            self.checkpoints = self._checkpoints()
        self.counters.saved_at, self._saved_s = self.counters.env_steps, time.monotonic()
        self.reporter.sync()
        handled = self.callbacks.handle("on_checkpoint")
        with self.context.barrier.saving():
            self._writer = CheckpointWriter(self.checkpoints, self.counters.env_steps, self.state_dict(), self._time())
            if handled or self.context.barrier.saves_together:
                self.finish()
        if handled:
            self.callbacks("on_checkpoint", self.checkpoints.path(self.counters.env_steps))

    def step(self) -> None:
        """Continue with the checkpoint that is being written. Raises RunError if the checkpoint could not be
        written."""
        if self._writer is not None and self._succeeds(self._writer.step):
            self._writer = None

    def finish(self) -> None:
        """Wait for the checkpoint that is being written. Raises RunError if the checkpoint could not be written."""
        if self._writer is not None:
            self._succeeds(self._writer.finish)
            self._writer = None

    def _succeeds(self, call: Callable[[], bool | None]) -> bool:
        """Whether the checkpoint is complete. A checkpoint that could not be written because the folder was moved is
        not counted as saved."""
        writer = self._writer
        assert writer is not None
        try:
            return call() is not False
        except BaseException as error:
            self._writer = None
            writer.abandon()
            self.run_folder.follow()
            if not isinstance(error, RunError) or not self.run_folder.moved:
                raise
            self.counters.saved_at = -1
            return True

    def close(self) -> None:
        """After an error that ends the run, complete the checkpoint that is being written, or abandon it."""
        with suppress(Exception):
            self.finish()

    @property
    def last(self) -> int | None:
        """Env steps of the newest checkpoint."""
        steps = self.checkpoints.steps()
        return steps[-1] if steps else None

    def _time(self) -> dict[str, Any]:
        return {**self.reporter.time.state_dict(), "activities": self.learner.gradient_sync.times}

    def state_dict(self) -> dict[str, Any]:
        counters, device = self.counters, self.learner.algo.device
        return {
            "config": self.config.identity(),
            "env_steps": counters.env_steps,
            "evaluated_at": counters.evaluated_at,
            "logged_at": counters.logged_at,
            "logged_episodes": counters.logged_episodes,
            "rows": self.reporter.rows,
            "recorder": self.reporter.recorder.state_dict(),
            "callbacks": self.callbacks.training.metrics.state_dict(),
            "learner": self.learner.state_dict(),
            "secondary": self.secondary.state_dict() if self.secondary is not None else None,
            "sampler": self.sampler.state_dict(),
            "schedule": self.schedule.state_dict(),
            "torch_rng": torch.get_rng_state(),
            "gpu_rng": Device(device).random_state(),
        }

    def restore(self, state: dict[str, Any]) -> None:
        counters, device = self.counters, self.learner.algo.device
        counters.env_steps = counters.saved_at = state["env_steps"]
        counters.evaluated_at, counters.logged_at = state["evaluated_at"], state["logged_at"]
        counters.logged_episodes = state["logged_episodes"]
        if times := state.get("time"):
            self.reporter.time.load_state_dict(times)
            self.learner.gradient_sync.times.update(times["activities"])
        self.reporter.recorder.load_state_dict(state["recorder"], device)
        self.callbacks.training.metrics.load_state_dict(state.get("callbacks", {"groups": []}), device)
        self.learner.load_state_dict(state["learner"])
        if self.secondary is not None:
            self.secondary.load_state_dict(state["secondary"])
        self.sampler.load_state_dict(state["sampler"])
        self.schedule.load_state_dict(state.get("schedule"))
        restore_default(state["torch_rng"], state["gpu_rng"], device)
