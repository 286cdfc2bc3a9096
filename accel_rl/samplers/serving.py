"""Three ways to compute the actions of a rollout.

OpenLoop    all actions are drawn before the rollout, and the engine plays T steps
InThreads   one thread per group of environments computes the group's actions, while the caller waits
InTurns     the calling thread computes the actions of the groups in turns
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from functools import partial

from torch import Tensor

from accel_rl.agents.agent import Agent
from accel_rl.samplers.engine import Engine
from accel_rl.samplers.inference.inference import RolloutPlayer
from accel_rl.samplers.inference.server import ActionServer, is_open_loop
from accel_rl.samplers.inference.threads import InferenceThreads
from accel_rl.samplers.rollout_memory import RolloutMemory


class Serving(ABC):
    """A way to compute the actions of a rollout. `begin` starts a rollout, and `wait` waits for its last step."""

    carries_over = False
    """Whether `begin` itself copies a group's last frames to the next rollout, which the group may begin ahead of other
    groups."""

    def __init__(self, engine: Engine, server: ActionServer, memory: RolloutMemory):
        self.engine, self.server, self.memory = engine, server, memory
        self.grouping, self.T = engine.grouping, engine.buffers[0].action.shape[0]

    def overlaps(self, agent: Agent, fixed: bool) -> bool:
        """Return whether the next rollout may begin before the current one has ended. `fixed` means that the agent's
        parameters do not change."""
        return False

    @abstractmethod
    def begin(self, agent: Agent, buffer: int, uniform: Tensor, ahead: bool = False) -> None:
        """Start a rollout. The random numbers `uniform` [T, B] select the actions. If `ahead`, the previous rollout has
        not ended."""

    def wait(self, ahead: bool) -> None:
        """Wait for the rollout's last step. If `ahead`, the next rollout has already begun."""
        for g in range(self.grouping.groups):
            self.engine.wait((g,), self.T if ahead else 0)

    def serve(
        self, agent: Agent | None, buffer: int, t: int, g: int, meanwhile: Callable[[], bool] | None = None
    ) -> None:
        """Compute a group's actions at step t, and request the step. `agent` is None if the actions were selected
        before the rollout."""
        if agent is not None:
            self.server.serve(agent, buffer, t, g, meanwhile)
        self.memory.skip_idle(buffer, t, self.grouping.group(g))
        self.engine.release(g, buffer * self.T + t)


class InTurns(Serving):
    """The calling thread plays the whole rollout in `begin`."""

    def __init__(self, engine: Engine, server: ActionServer, memory: RolloutMemory, player: RolloutPlayer | None):
        """`player` replays a rollout in GPU memory without Python."""
        super().__init__(engine, server, memory)
        self._player = player

    def begin(self, agent: Agent, buffer: int, uniform: Tensor, ahead: bool = False) -> None:
        self.server.begin(agent, buffer, uniform)
        self.play(agent, buffer)

    def play(self, agent: Agent | None, buffer: int) -> None:
        """Play a rollout. `agent` is None if the actions were selected before the rollout."""
        if self._player is None:
            self._steps(agent, buffer)
            return
        state = self.server.state
        settings = self.memory.skips, None if state is None else state.data_ptr()
        self._player.play(agent, buffer, settings, lambda side_by_side: self._steps(agent, buffer, side_by_side))

    def _steps(self, agent: Agent | None, buffer: int, side_by_side: bool = False) -> None:
        """Play the steps of a rollout. With `side_by_side`, each group of environments runs on its own CUDA stream."""
        with self.memory.side_by_side(side_by_side):
            for t, g in self._turns():
                with self.memory.turn(g):
                    self.serve(agent, buffer, t, g, partial(self._prefetch, buffer, t, g))

    def _turns(self) -> Iterator[tuple[int, int]]:
        """Yield (t, group) as soon as a group's observations of step t are ready. With dedicated workers, groups are
        yielded in the order in which they become ready, and otherwise in a fixed order."""
        if not self.grouping.dedicated_workers:
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
                playing.append(g)  # The group moves to the end of the queue.

    def _prefetch(self, buffer: int, t: int, g: int) -> bool:
        """While a GPU computes group g's actions at step t, start copying the next group's frames to the GPU if that
        group is ready. Return true if the next group is not ready, so that `_prefetch` must be called again."""
        t, g = (t, g + 1) if g + 1 < self.grouping.groups else (t + 1, 0)
        if not self.grouping.alternates or not 0 < t < self.T:
            return False
        if not self.engine.is_ready(g):
            return True
        self.server.prefetch(buffer, t, g)
        return False


class OpenLoop(Serving):
    """The environments play without pauses, because the actions do not depend on observations."""

    def __init__(self, engine: Engine, server: ActionServer, memory: RolloutMemory, turns: InTurns):
        super().__init__(engine, server, memory)
        self._turns = turns

    def overlaps(self, agent: Agent, fixed: bool) -> bool:
        return is_open_loop(agent) and not self.memory.resident

    def begin(self, agent: Agent, buffer: int, uniform: Tensor, ahead: bool = False) -> None:
        self.server.draw_all(agent, buffer, uniform)
        if self.memory.resident:
            self._turns.play(None, buffer)
            return
        for t in range(self.T):
            self.memory.skip_idle(buffer, t, slice(0, self.grouping.B))
        for g in range(self.grouping.groups):
            self.engine.release(g, buffer * self.T, self.T)


class InThreads(Serving):
    """One inference thread per group, on the cores of the group's dedicated worker processes. No core waits for another
    one within a rollout."""

    carries_over = True

    def __init__(self, engine: Engine, server: ActionServer, memory: RolloutMemory, threads: InferenceThreads):
        super().__init__(engine, server, memory)
        self._threads = threads

    def overlaps(self, agent: Agent, fixed: bool) -> bool:
        return fixed and self.server.can_go_ahead(agent) and not self.memory.resident

    def begin(self, agent: Agent, buffer: int, uniform: Tensor, ahead: bool = False) -> None:
        def serve(t: int, g: int) -> None:
            if ahead and t == 0:
                self.memory.carry_over(buffer - 1, buffer, self.grouping.group(g))
            self.serve(agent, buffer, t, g)

        self.server.begin(agent, buffer, uniform, ahead)
        self._threads.begin(self.T, serve)

    def wait(self, ahead: bool) -> None:
        self._threads.wait()

    def close(self) -> None:
        self._threads.close()
