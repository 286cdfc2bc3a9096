"""Execute the requested steps of one group of environments, in a worker process or in the main process."""

import traceback
from collections.abc import Callable

import numpy as np

from accel_rl.data.rollout_arrays import RolloutArrays, Step
from accel_rl.envs.environment import BatchEnv, Env, EnvError
from accel_rl.envs.reserved import ReservedEnv
from accel_rl.text.errors import RunError

BUFFERS = 2
"""Default number of rollout buffers: with two, the next rollout's first observation can be written while the learner
reads the last rollout."""


def initial(buffer: int) -> int:
    """Return the step index that requests a buffer's first observation instead of a step."""
    return -1 - buffer


class GroupStepper:
    """Steps a batch of environments, and writes the results into rollouts. The step index buffer * T + t (modulo the
    number of steps in all buffers) means step t of the rollout in a buffer. The negative step index `initial(buffer)`
    requests the observation before the rollout's first step.

    All views of the rollout memory are created in advance, so that a step allocates no memory.
    """

    def __init__(self, env: BatchEnv, buffers: list[RolloutArrays], b: slice):
        T = buffers[0].action.shape[0]
        self.env = env
        self._first_index = b.start
        self._actions: list[np.ndarray] = [buf.action[t, b] for buf in buffers for t in range(T)]
        self._steps: list[Step] = [buf.step(t, b) for buf in buffers for t in range(T)]
        self._initial: list[Step] = [buf.initial(b, env.spec) for buf in buffers]
        self._first = Step.empty(env.n, env.spec)
        self._is_fresh = False

    def start(self) -> None:
        """Begin the first episodes, and play the random decorrelation actions. The first frames are stored until
        `initial(buffer)` is requested."""
        try:
            self.env.reset(self._first)
        except EnvError as e:
            raise self._error(e) from e
        self._is_fresh = True

    def _error(self, e: EnvError) -> RunError:
        """Return a RunError with the environment's index in the sampler, and with the traceback as a note."""
        envs = getattr(self.env, "envs", ())
        index = next((f" {self._first_index + i}" for i, env in enumerate(envs) if e.env in _parts(env)), "")
        error = RunError(f"environment{index}: {e}")
        error.add_note("".join(traceback.format_exception(e.__cause__ or e)))
        return error

    def do(self, step_index: int) -> None:
        try:
            self._do(step_index)
        except EnvError as e:
            raise self._error(e) from e

    def _do(self, step_index: int) -> None:
        if step_index >= 0:
            step_index %= len(self._steps)
            self.env.send(self._actions[step_index])
            self.env.recv(self._steps[step_index])
        elif self._is_fresh:
            out = self._initial[-1 - step_index]
            out.frame[:], out.age[:] = self._first.frame, self._first.age
            self._is_fresh = False
        else:
            self.env.reset_waiting(self._initial[-1 - step_index])

    def replace(self, build: Callable[[], BatchEnv]) -> None:
        self.env.close()
        self.env = build()
        self.start()

    def get_state(self) -> list[bytes]:
        try:
            return self.env.get_state()
        except EnvError as e:
            raise self._error(e) from e

    def set_state(self, states: list[bytes]) -> None:
        """Restore the environments' states. The caller restores the last observation."""
        try:
            self.env.set_state(states)
        except EnvError as e:
            raise self._error(e) from e
        self._is_fresh = False


def _parts(env: Env) -> tuple[Env, ...]:
    """Return the two environments that --sampler.reset swap plays in turn, or the single environment."""
    return env.instances if isinstance(env, ReservedEnv) else (env,)
