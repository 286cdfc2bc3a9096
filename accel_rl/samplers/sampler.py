"""The sampler: T steps of B environments in alternating groups, over any engine that steps them."""

from collections.abc import Iterator, Sequence
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor

from accel_rl.agents.base import Agent
from accel_rl.data.rollout import Rollout
from accel_rl.data.rollout_arrays import SENTINEL_ACTION, RolloutArrays
from accel_rl.data.spec import EnvSpec
from accel_rl.models.precision import Precision
from accel_rl.samplers.episodes import Episode, EpisodeTracker
from accel_rl.samplers.grouping import Grouping
from accel_rl.samplers.inference.server import ActionServer, chosen
from accel_rl.samplers.inference.threads import ServerThreads
from accel_rl.samplers.workers.stepper import BUFFERS


class Engine(Protocol):
    """Who steps the environments: `WorkerPool` (processes) or `InProcessEngine`."""

    grouping: Grouping
    buffers: list[RolloutArrays]

    def start(self, restore: bool = False) -> None: ...
    def join(self) -> list[int]: ...
    def absent(self) -> list[slice]: ...
    def check(self) -> None: ...
    def release(self, group: int, slot: int, n: int = 1, workers: list[int] | None = None) -> None: ...
    def wait(self, groups: Sequence[int], ahead: int = 0) -> int: ...
    def late_resets(self) -> int: ...
    def get_state(self) -> list[bytes]: ...
    def set_state(self, states: list[bytes]) -> None: ...
    def close(self) -> None: ...


class Sampler:
    """`collect(agent)` -> Rollout [T, B]. Two rollouts' buffers take turns: one stays whole until the next but one.

    The result depends on seed, B, groups and the agent alone: not on the engine, the number of workers or who is first.
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
        keep: bool = False,
        window: int = 100,
        partial_starts: bool = False,
        threads: ServerThreads | None = None,
    ):
        """threads: that serve the groups beside one another, if each has workers of its own."""
        self.engine, self.spec, self.grouping = engine, spec, engine.grouping
        self.T, self.B = engine.buffers[0].action.shape
        for arrays in engine.buffers:
            arrays.fill_sentinels()
        self.server = ActionServer(
            [Rollout.over(a) for a in engine.buffers], self.grouping, device, act_threads, act_cores, precision, keep
        )
        self.episodes = EpisodeTracker(self.B, window, partial_starts)
        self.finished: list[Episode] = []  # by the last rollout
        self.idle: np.ndarray | None = (
            None  # [B] bool: environments that are left alone (an evaluation's finished ones)
        )
        self._reset_in_pause = reset in ("wait", "swap")
        self._threads = threads
        self._served: set[int] = set()  # buffers that threads play to their end
        self._uniform = torch.Generator().manual_seed(seed)
        self._buffer = 0
        self._started = self._pending_heads = self._begun = False

    def start(self) -> None:
        """Start the engine, at fresh episodes. `collect` does it where nobody has."""
        if not self._started:
            self.engine.start()
            self._started = True

    def collect(self, agent: Agent) -> Rollout:
        """Play T steps in each environment. Cells of a worker that died are not valid."""
        self._check_between()
        self.start()
        buffer = self._buffer
        self._open(buffer)
        if chosen(agent) or self._threads is not None:
            self._begin(agent, buffer)
        else:
            self.server.begin(agent, buffer, self._draw())
            for t, g in self._turns():
                self._serve(agent, buffer, t, g)
        return self._finish()

    def _serve(self, agent: Agent, buffer: int, t: int, g: int) -> None:
        self.server.serve(agent, buffer, t, g)
        self._spare(self.engine.buffers[buffer].action[t])
        self.engine.release(g, buffer * self.T + t)

    def rollouts(self, agent: Agent, fixed: bool = False) -> Iterator[Rollout]:
        """The rollouts that `collect` would give, each whole until the next is asked for. Nobody waits at a rollout's
        end, who is ready begins the next, if the agent looks at nothing; or if it is `fixed`, that is its parameters
        stay as they are, and groups have threads of their own.

        Whoever breaks off (closes it): the one that was begun is played to its end then, its episodes count, nobody
        sees it. Before that, RuntimeError for `collect` and `state_dict`.
        """
        while True:
            if not self._begun:
                if not self._goes_ahead(agent, fixed):
                    yield self.collect(agent)
                    continue
                self.start()
                self._open(self._buffer)
                self._begin(agent, self._buffer)
            alike = chosen(agent) != (self._buffer in self._served)  # as the one that is on its way
            free = alike and self._goes_ahead(agent, fixed)
            self._begun = free and not self.engine.absent()  # else somebody may join before the next
            if self._begun:
                self._begin(agent, self._following, ahead=True)
            try:
                rollout = self._finish(ahead=self._begun)
            except BaseException:
                self._begun = False
                raise
            try:
                yield rollout
            except BaseException:
                if self._begun:
                    self._begun = False
                    self._finish()
                raise

    def _goes_ahead(self, agent: Agent, fixed: bool) -> bool:
        """Whether its next rollout depends on nothing that is done between the two."""
        free = chosen(agent) or (fixed and self._threads is not None and self.server.goes_ahead(agent))
        return free and not self._reset_in_pause

    def _begin(self, agent: Agent, buffer: int, ahead: bool = False) -> None:
        """What of the rollout needs nobody who waits for it here: all of it, or its serving in threads."""
        if chosen(agent):
            self._release_all(agent, buffer)
            return
        assert self._threads is not None
        before, slices = self.engine.buffers[buffer - 1], [self.grouping.group(g) for g in range(self.grouping.groups)]

        def serve(t: int, g: int) -> int:
            if ahead and t == 0:
                self._carry(before, self.engine.buffers[buffer], slices[g])
            if (left := self._go_on(buffer, t, g)) > t:
                return left
            self._serve(agent, buffer, t, g)
            return t + 1

        self.server.begin(agent, buffer, self._draw(), ahead)
        self._served.add(buffer)
        self._threads.begin(self.T, serve)

    def _go_on(self, buffer: int, t: int, g: int) -> int:
        """The steps from t on for which only recorded calls are to be made -> the first that is left."""
        calls = self.server.calls(buffer, g) if self.idle is None else None
        if calls is None:
            return t
        left = self._threads.rounds(g, calls, t, self.T, buffer * self.T)  # type: ignore[union-attr]
        self.server.made(g, left - t)
        return left

    def _check_between(self) -> None:
        if self._begun:
            raise RuntimeError("a rollout is on its way: close what rollouts() gave first")

    def _draw(self) -> Tensor:
        """[T, B], what the next rollout's actions are drawn by."""
        return torch.rand(self.T, self.B, generator=self._uniform).to(self.server.device)

    def _release_all(self, agent: Agent, buffer: int) -> None:
        """All actions are chosen now: nobody waits for anybody."""
        self.server.choose(agent, buffer, self._draw())
        self._spare(self.engine.buffers[buffer].action)
        for g in range(self.grouping.groups):
            self.engine.release(g, buffer * self.T, self.T)

    def _finish(self, ahead: bool = False) -> Rollout:
        """The rollout that was begun, once its last step is done; the next one's may be on their way."""
        buffer = self._buffer
        served = buffer in self._served
        if served:
            self._served.remove(buffer)
            self._threads.wait()  # type: ignore[union-attr]
        else:
            for g in range(self.grouping.groups):
                self.engine.wait((g,), self.T if ahead else 0)
        arrays = self.engine.buffers[buffer]
        for b in self.engine.absent():
            self._drop(arrays, b)
        self.finished = self.episodes.add(arrays)
        rollout = self.server.finish(buffer)
        self._close_rollout(arrays, carried=served and ahead)
        return rollout

    @property
    def _following(self) -> int:
        return (self._buffer + 1) % BUFFERS

    def _spare(self, action: np.ndarray) -> None:
        """Nothing is done with environments that are to be left alone. action [..., B]."""
        if self.idle is not None:
            action[..., self.idle] = SENTINEL_ACTION

    def _turns(self) -> Iterator[tuple[int, int]]:
        """(t, group), each as soon as the group's observations of step t are there: in turn, or as they come."""
        if not self.grouping.own:
            for t in range(self.T):
                for g in range(self.grouping.groups):
                    yield t, self.engine.wait((g,))
            return
        done, playing = [0] * self.grouping.groups, list(range(self.grouping.groups))
        while playing:
            g = self.engine.wait(playing)
            yield done[g], g
            done[g] += 1
            playing.remove(g)
            if done[g] < self.T:
                playing.append(g)  # the others first: none is kept waiting

    def _open(self, buffer: int) -> None:
        """The first observations: resets from the pause, and whoever has just joined."""
        joined = self.engine.join()
        for g in range(self.grouping.groups):
            if self._pending_heads:
                self.engine.wait((g,))
            if joined:
                self.engine.release(g, -1 - buffer, workers=joined)
        for g in range(self.grouping.groups) if joined else ():
            self.engine.wait((g,))
        self._pending_heads = False

    def _drop(self, arrays: RolloutArrays, b: slice) -> None:
        """A worker was lost: nothing of its part counts, and nothing in it can do harm (no NaN, no action -1)."""
        arrays.valid[:, b] = arrays.terminated[:, b] = arrays.truncated[:, b] = arrays.ended[:, b] = False
        arrays.reward[:, b], arrays.action[:, b] = 0.0, 0
        self.episodes.forget(b)

    def _carry(self, arrays: RolloutArrays, following: RolloutArrays, b: slice = slice(None)) -> None:
        """The last frames of environments b open the next rollout."""
        S = self.spec.stack
        following.frames[:S, b] = arrays.frames[-S:, b]
        following.age[0, b] = arrays.age[-1, b]

    def _close_rollout(self, arrays: RolloutArrays, carried: bool) -> None:
        """The next one follows; who waits, or a used reserve, is reset while the learner works."""
        self._buffer = self._following
        if not carried:
            self._carry(arrays, self.engine.buffers[self._buffer])
        if self._reset_in_pause:
            for g in range(self.grouping.groups):
                self.engine.release(g, -1 - self._buffer)
            self._pending_heads = True

    def late_resets(self) -> int:
        """In the mode `swap`, how many episodes began with a reset at once because no reserve was ready."""
        return self.engine.late_resets()

    def check(self) -> None:
        """Notice dead workers between updates, too."""
        self.engine.check()

    def state_dict(self) -> dict[str, Any]:
        """Between rollouts: environments, the frames an observation reaches back to, randomness, running scores."""
        self._check_between()
        self.start()
        self._open(self._buffer)
        arrays, S = self.engine.buffers[self._buffer], self.spec.stack
        return {
            "envs": self.engine.get_state(),
            "frames": arrays.frames[:S].copy(),
            "age": arrays.age[0].copy(),
            "uniform": self._uniform.get_state(),
            "memory": None if self.server.state is None else self.server.state.cpu(),
            "episodes": self.episodes.state_dict(),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from a state, bit for bit where the environments can."""
        self.engine.start(restore=True)
        self.engine.set_state(state["envs"])
        self._started = True
        arrays, S = self.engine.buffers[self._buffer], self.spec.stack
        arrays.frames[:S], arrays.age[0] = np.asarray(state["frames"]), np.asarray(state["age"])
        self._uniform.set_state(state["uniform"])
        if state["memory"] is not None:
            self.server.state = state["memory"].to(self.server.device)
        self.episodes.load_state_dict(state["episodes"])
        self.engine.join()

    def close(self) -> None:
        if self._threads is not None:
            self._threads.close()
        self.server.close()
        self.engine.close()
