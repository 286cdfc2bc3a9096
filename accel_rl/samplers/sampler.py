"""A sampler plays T steps in each of B environments. The environments are divided into groups, whose actions are
computed one group after another."""

import logging
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from accel_rl.agents.agent import Agent
from accel_rl.data.rollout import Rollout
from accel_rl.data.rollout_arrays import RolloutArrays
from accel_rl.data.spec import EnvSpec
from accel_rl.models.precision import Precision
from accel_rl.samplers.engine import Engine, WorkersReplaced
from accel_rl.samplers.episodes import Episode, EpisodeTracker
from accel_rl.samplers.inference.inference import PLAIN, Acceleration
from accel_rl.samplers.inference.server import ActionServer, is_open_loop
from accel_rl.samplers.inference.threads import InferenceThreads
from accel_rl.samplers.rollout_memory import HostMemory, RolloutMemory
from accel_rl.samplers.serving import InThreads, InTurns, OpenLoop, Serving
from accel_rl.samplers.workers.stepper import initial

logger = logging.getLogger(__name__)


class EnvShare(NamedTuple):
    """Which of the environments of all ranks that share batches belong to one rank."""

    first: int  # index of the rank's first environment
    of_all: int  # number of environments of all ranks


class Sampler:
    """Collects rollouts [T, B] with an agent. The engine has n buffers with one rollout each, so a rollout is valid
    until n - 1 further rollouts have been collected.

    The rollouts depend only on the seed, B, the groups and the agent, not on the engine, the number of workers or their
    speed.
    """

    def __init__(
        self,
        engine: Engine,
        spec: EnvSpec,
        seed: int,
        *,
        reset: str = "immediate",
        device: str = "cpu",
        act_threads: int = 1,
        act_cores: tuple[int, ...] = (),
        precision: Precision = "float32",
        acceleration: Acceleration = PLAIN,
        window: int = 100,
        games: int = 1,
        first_game: int = 0,
        partial_starts: bool = False,
        share: EnvShare | None = None,
        threads: InferenceThreads | None = None,
        memory: RolloutMemory | None = None,
    ):
        """With `threads`, one thread per group of environments computes actions, which requires dedicated worker
        processes for each group. `acceleration` selects the implementation of inference. `memory` stores the rollouts,
        by default in host memory. Ranks that share batches have the same `seed`: each rank draws the random numbers of
        the environments of all ranks, and uses those of its own environments (`share`). Environment b plays game number
        (first_game + b) % games."""
        self.engine = engine
        self.spec = spec
        self.grouping = engine.grouping
        (self.T, self.B), self.buffers = engine.buffers[0].reward.shape, len(engine.buffers)
        self._share = share or EnvShare(0, self.B)
        self.memory = HostMemory(engine.buffers) if memory is None else memory
        self.memory.clear()
        self.server = ActionServer(
            self.memory.rollouts, self.grouping, device, act_threads, act_cores, precision, acceleration,
            self.memory.resident,
        )  # fmt: skip
        parts = engine, self.server, self.memory
        player = acceleration.player(self.server.device) if self.memory.resident else None
        self._in_turns = InTurns(*parts, player)
        self._open_loop = OpenLoop(*parts, self._in_turns)
        self._in_threads = None if threads is None else InThreads(*parts, threads)
        self._new_tracker = lambda: EpisodeTracker(self.B, window, partial_starts, games, first_game)
        self.episodes = self._new_tracker()
        self.finished: list[Episode] = []  # episodes that ended in the last rollout
        self.idle: np.ndarray | None = None  # A mask [B], true for environments that an evaluation does not step
        self._has_warned = False
        self.dropped = 0  # how often a worker process died and its part of a rollout became invalid
        self._in_flight = 0  # number of rollouts that have begun and not ended: 2 if they overlap
        self._resets_in_pause = reset in ("wait", "swap")
        self._uniform = torch.Generator().manual_seed(seed)
        self._buffer = 0
        self._is_started = self._awaits_initial = False

    def start(self) -> None:
        if not self._is_started:
            self.engine.start()
            self._is_started = True

    # -- rollouts ------------------------------------------------------------

    def collect(self, agent: Agent) -> Rollout:
        """Play T steps in each environment. If a worker process has died, the steps of its environments are marked as
        invalid."""
        self._require_idle()
        self._open()
        serving = self._serving(agent)
        try:
            self._begin(serving, agent)
            return self._finish(serving)
        except BaseException:
            self._in_flight = 0
            raise

    def rollouts(self, agent: Agent, fixed: bool = False) -> Iterator[Rollout]:
        """Yield the rollouts that repeated calls of `collect` would return. Each rollout is valid until the next one is
        requested.

        Environments do not pause between rollouts if the agent's actions do not depend on observations or rewards, or
        if its parameters do not change (`fixed`) and each group has an inference thread. When the iterator is closed,
        the current rollout is played to its end. Until the iterator is closed, `collect` and `state_dict` raise
        RuntimeError.
        """
        serving = None  # how the current rollout's actions are computed
        while True:
            following = self._serving(agent)
            overlaps = following.overlaps(agent, fixed) and not self._resets_in_pause
            if serving is None:
                if not overlaps:
                    yield self.collect(agent)
                    continue
                self._open()
                serving = following
                self._begin(serving, agent)
            # If a worker process has died, environments pause, because a replacement can join only between rollouts.
            if overlaps and following is serving and not self.engine.absent():
                self._begin(serving, agent)
            rollout = self._finish(serving)
            serving = serving if self._in_flight else None
            try:
                yield rollout
            except BaseException:
                if serving is not None:
                    self._finish(serving)
                raise

    def _serving(self, agent: Agent) -> Serving:
        if is_open_loop(agent):
            return self._open_loop
        return self._in_turns if self._in_threads is None else self._in_threads

    def _begin(self, serving: Serving, agent: Agent) -> None:
        """Start the next rollout, possibly before the current rollout has ended."""
        buffer = self._next_buffer if self._in_flight else self._buffer
        self._in_flight += 1
        self.memory.skip(self.idle)
        serving.begin(agent, buffer, self._draw(), ahead=self._in_flight > 1)

    def _finish(self, serving: Serving) -> Rollout:
        is_ahead, self._in_flight = self._in_flight > 1, 0
        serving.wait(is_ahead)
        buffer = self._buffer
        for b in self.engine.absent():
            self._drop(self.memory.arrays(buffer), b)
        rollout = self.server.finish(buffer)
        arrays = self.memory.arrays(buffer)
        self._warn_of_nan(arrays)
        self.finished = self.episodes.add(arrays)
        self._buffer = self._next_buffer
        if not (is_ahead and serving.carries_over):
            self.memory.carry_over(buffer, self._buffer)
        self._reset_in_pause()
        self._in_flight = int(is_ahead)
        return rollout

    # -- pauses ------------------------------------------------------------

    def _open(self) -> None:
        """Wait until the next rollout's first observations are in its buffer. Worker processes that have just joined
        are asked for the first observations of their environments."""
        self.start()
        joined = self.engine.join()
        for g in range(self.grouping.groups):
            if self._awaits_initial:
                self.engine.wait((g,))
            if joined:
                self.engine.release(g, initial(self._buffer), workers=joined)
        for g in range(self.grouping.groups) if joined else ():
            self.engine.wait((g,))
        self._awaits_initial = False

    def _reset_in_pause(self) -> None:
        """With --sampler.reset wait or swap, request resets of environments, which run while the learner optimises."""
        if self._resets_in_pause:
            for g in range(self.grouping.groups):
                self.engine.release(g, initial(self._buffer))
            self._awaits_initial = True

    def _drop(self, arrays: RolloutArrays, b: slice) -> None:
        """Mark the steps of environments `b`, whose worker process was lost, as invalid. Set their rewards and actions
        to 0, because these may be sentinel values."""
        arrays.valid[:, b] = arrays.terminated[:, b] = arrays.truncated[:, b] = arrays.ended[:, b] = False
        arrays.reward[:, b], arrays.action[:, b] = 0.0, 0
        self.episodes.forget(b)
        self.dropped += 1

    def _warn_of_nan(self, arrays: RolloutArrays) -> None:
        """Warn about a reward or an observation that is not finite, once per sampler."""
        if self._has_warned or self.spec.is_atari:
            return
        wrong = {"reward": ~np.isfinite(arrays.reward) & arrays.valid}
        if not self.memory.resident and arrays.frames.dtype.kind == "f":
            frames = arrays.frames[self.spec.stack :].reshape(self.T, self.B, -1)
            wrong["observation"] = ~np.isfinite(frames).all(-1) & arrays.valid
        for name, cells in wrong.items():
            if cells.any():
                b = int(np.argwhere(cells)[0, 1])
                self._has_warned = True
                logger.warning(
                    f"{self.spec.name}: the {name} of environment {b} is not finite; updates from it are skipped"
                )
                return

    def _draw(self) -> Tensor:
        """Draw the uniform random numbers [T, B] that select the next rollout's actions."""
        first, of_all = self._share
        uniform = torch.rand(self.T, of_all, generator=self._uniform)
        return uniform if of_all == self.B else uniform[:, first : first + self.B].contiguous()

    @property
    def _next_buffer(self) -> int:
        return (self._buffer + 1) % len(self.engine.buffers)

    def _require_idle(self) -> None:
        if self._in_flight:
            raise RuntimeError("a rollout is in flight: close the iterator that rollouts() returned first")

    def check(self) -> None:
        self.engine.check()

    # -- state ------------------------------------------------------------

    def state_dict(self) -> dict[str, Any]:
        """Return the state between two rollouts: the states of the environments, the frames of the last observations,
        the state of the random number generator, the agent's recurrent state, and the episodes' scores."""
        self._require_idle()
        self._open()
        envs = self._environment_states()
        frames, age = self.memory.first(self._buffer)
        return {
            "envs": envs,
            "frames": frames,
            "age": age,
            "uniform": self._uniform.get_state(),
            "memory": None if self.server.state is None else self.server.state.cpu(),
            "episodes": self.episodes.state_dict(),
        }

    def _environment_states(self) -> list[bytes]:
        while True:
            try:
                return self.engine.get_state()
            except WorkersReplaced:
                for b in self.engine.absent():
                    self.episodes.forget(b)
                self._open()

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore a state. Later rollouts are bitwise identical to those of the saved sampler if the environments can
        be restored exactly."""
        self.engine.start(restore=True)
        self.engine.set_state(state["envs"])
        self._is_started = True
        self.memory.set_first(self._buffer, state["frames"], state["age"])
        self._uniform.set_state(state["uniform"])
        if state["memory"] is not None:
            self.server.state = state["memory"].to(self.server.device)
        self.episodes.load_state_dict(state["episodes"])
        self.engine.join()

    def reseed(self, seed: int) -> None:
        self._require_idle()
        self.start()
        self.engine.reseed(seed)
        self.memory.clear()
        self.episodes = self._new_tracker()
        self.finished = []
        self.idle = None
        self.dropped = 0
        self.server.forget()
        self._uniform.manual_seed(seed)
        self._buffer, self._awaits_initial = 0, False

    def close(self) -> None:
        if self._in_threads is not None:
            self._in_threads.close()
        self.server.close()
        self.engine.close()
