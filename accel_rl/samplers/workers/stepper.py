"""Carries out what is asked of one group's environments; the same in a worker process and in this one."""

from functools import cached_property

import numpy as np

from accel_rl.data.rollout_arrays import RolloutArrays
from accel_rl.data.step import Step
from accel_rl.envs.base import BatchEnv, Rounds

BUFFERS = 2  # rollouts alternate: the next one's first observation is written while the last is being learned from


class GroupStepper:
    """Slot buffer * T + t is a step, and so is any that is larger by a multiple of both buffers' 2T; slot -1 - buffer
    writes that buffer's first observation.

    Every view is sliced once, here: a step allocates nothing.
    """

    def __init__(self, env: BatchEnv, buffers: list[RolloutArrays], b: slice):
        T = buffers[0].action.shape[0]
        self.env = env
        self._actions: list[np.ndarray] = [buf.action[t, b] for buf in buffers for t in range(T)]
        self._steps: list[Step] = [buf.step(t, b) for buf in buffers for t in range(T)]
        self._heads: list[Step] = [buf.head(b, env.spec) for buf in buffers]
        self._first = Step.empty(env.n, env.spec)
        self._fresh = False

    def start(self) -> None:
        """First episodes, with decorrelated starts. They are shown at the next head."""
        self.env.reset(self._first)
        self._fresh = True

    def do(self, slot: int) -> None:
        if slot >= 0:
            slot %= len(self._steps)
            self.env.send(self._actions[slot])
            self.env.recv(self._steps[slot])
        elif self._fresh:
            head = self._heads[-1 - slot]
            head.frame[:], head.age[:] = self._first.frame, self._first.age
            self._fresh = False
        else:
            self.env.reset_waiting(self._heads[-1 - slot])

    @cached_property
    def _rounds(self) -> Rounds | None:
        return self.env.rounds(self._actions, self._steps)

    def go_on(self, wire: tuple[int, ...]) -> None:
        """Steps as they are asked for over the wire, as far as that needs nobody else. See `WorkerSide.wire`."""
        done = False
        while self._rounds is not None and (slot := self._rounds.play(*wire, done=done)) >= 0:
            self.env.settle(self._steps[slot])
            done = True

    def set_state(self, states: list[bytes]) -> None:
        """Go on from a checkpoint; whoever restores it restores the current observation as well."""
        self.env.set_state(states)
        self._fresh = False
