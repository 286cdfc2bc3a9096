"""Steps a batch of n environments in one process, one after another."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from accel_rl.data.rollout_arrays import Step, is_skipped
from accel_rl.data.spec import EnvSpec
from accel_rl.envs.environment import Env, pack_state, unpack_state
from accel_rl.envs.episode_info import packed
from accel_rl.envs.reserved import ReservedEnv
from accel_rl.text.errors import ConfigError, nearest

RESETS = ("immediate", "wait", "swap", "cached")
_SKIPPED = (0.0, False, False, False)


def decorrelation_rng(seed: int) -> np.random.Generator:
    """Return the generator of decorrelation actions, which is independent of the environment's episodes."""
    return np.random.default_rng([seed, 1])


def decorrelation_actions(rng: np.random.Generator, spec: EnvSpec, most: int) -> np.ndarray:
    """Draw n random actions [n, ...], with n uniform in 0..most (Stooke & Abbeel 2018, section 5.3)."""
    n = rng.integers(most + 1)
    if not spec.action_shape:
        return rng.integers(spec.n_actions, size=n)
    if spec.choices:
        return rng.integers(spec.choices, size=(n, len(spec.choices)))
    low, high = np.transpose(spec.ranges)
    return rng.uniform(low, high, (int(n), len(spec.low)))


def allowed_action(action: Any, frame: np.ndarray, mask: int) -> Any:
    """Return the random action `action`, or an allowed action if the action mask in the observation `frame` forbids
    `action`."""
    if not mask:
        return action
    known = np.flatnonzero(frame.view(np.float32)[-mask:] > 0.5)
    return int(known[action % len(known)]) if len(known) else action


class SequentialEnv:
    """A batch of environments with the same spec, stepped one after another.

    The setting `reset` determines when an environment is reset after its episode has ended. With "immediate", the
    environment is reset within the same step, and the step's `frame` is the new episode's first frame. With "wait", the
    environment is skipped (`valid` is False, other fields are zero) until the next `reset_waiting` resets it. With
    "swap", a reserve environment (`ReservedEnv`) begins the next episode. With "cached", a stored start state is
    restored within the same step. `make.make_batch` creates the environments that each value of `reset` needs. Given
    the same actions, an environment's k-th episode is the same with `immediate`, `wait` and `swap`, except with `swap`
    in the games of `unclean_resets`.

    A negative action skips an environment for one step. After `reset`, each environment first plays between 0 and
    decorrelation_steps random actions, which depend on `seeds` (Stooke & Abbeel 2018, section 5.3). Raises ConfigError.
    """

    def __init__(self, envs: Sequence[Env], reset: str, decorrelation_steps: int, seeds: Sequence[int]) -> None:
        if reset not in RESETS:
            raise ConfigError(
                f"reset={reset!r} is unknown: must be one of {', '.join(RESETS)}" + nearest(reset, RESETS)
            )
        if decorrelation_steps < 0:
            raise ConfigError(f"decorrelation_steps={decorrelation_steps}: must be 0 or more")
        if not envs or len(envs) != len(seeds):
            raise ConfigError(f"{len(envs)} environments with {len(seeds)} seeds: must be as many, and at least 1")
        self.spec: EnvSpec = envs[0].spec
        self.n = len(envs)
        self.envs = list(envs)
        self._steps = [env.step for env in envs]
        self._reserved = [env for env in envs if isinstance(env, ReservedEnv)]
        assert len(self._reserved) == (self.n if reset == "swap" else 0)
        self._has_info = self.spec.info_bytes > 0
        self._waits = reset == "wait"
        self._decorrelation_steps = decorrelation_steps
        self._rngs = [decorrelation_rng(seed) for seed in seeds]
        self._oldest = np.uint8(self.spec.oldest)
        self._age = np.zeros(self.n, np.uint8)
        self._waiting = np.zeros(self.n, bool)
        self._any_waiting = False
        self._action: np.ndarray | None = None

    def reset(self, out: Step) -> None:
        """Start all environments, play their random decorrelation actions, and write the current frames and age 0 into
        `out`. The agent's first observation contains no earlier frames."""
        for env, rng, frame in zip(self.envs, self._rngs, out.frame, strict=True):
            env.reset(frame)
            if self._decorrelation_steps:
                for action in decorrelation_actions(rng, self.spec, self._decorrelation_steps).tolist():
                    if env.step(allowed_action(action, frame, self.spec.mask), frame)[3]:
                        env.reset(frame)
        for reserved in self._reserved:
            reserved.refill()
            reserved.late_resets = 0  # `late_resets` does not count resets before the first rollout.
        self._age[:] = 0
        self._waiting[:] = self._any_waiting = False
        out.clear()

    def send(self, action: np.ndarray) -> None:
        self._action = action

    def recv(self, out: Step) -> None:
        assert self._action is not None, "recv without send"
        action, self._action = self._action, None
        waiting, age = self._waiting, self._age
        skipped = waiting
        if self._any_waiting or not action.min() >= 0:
            skipped = waiting | is_skipped(action)
            self._play(action, skipped if skipped.any() else None, out)
        else:
            self._play(action, None, out)
        np.logical_not(skipped, out=out.valid)
        np.add(age, age < self._oldest, out=age)
        np.multiply(age, out.valid, out=age)
        out.age[:] = age
        if out.ended.any():
            self._end_episodes(out)

    def _end_episodes(self, out: Step) -> None:
        for i in np.flatnonzero(out.ended):
            out.final_frame[i] = out.frame[i]
            if self._has_info:
                out.info[i] = packed(self.envs[i].episode_info)  # type: ignore[attr-defined]
            if self._waits:
                self._waiting[i] = self._any_waiting = True
            else:
                self.envs[i].reset(out.frame[i])
                self._age[i] = out.age[i] = 0

    def _play(self, action: np.ndarray, skipped: np.ndarray | None, out: Step) -> None:
        """Step the environments where `skipped` [n] is false, or all environments if `skipped` is None. Write zeros
        into `out` for the skipped environments."""
        steps = self._steps
        if skipped is None:
            results = [step(a, frame) for step, a, frame in zip(steps, action.tolist(), out.frame, strict=True)]
        else:
            results = [
                _SKIPPED if skip else step(a, frame)
                for skip, step, a, frame in zip(skipped.tolist(), steps, action.tolist(), out.frame, strict=True)
            ]
            out.frame[skipped] = 0  # `out.frame` still contains old frames of skipped environments.
        out.reward[:], out.terminated[:], out.truncated[:], out.ended[:] = zip(*results, strict=True)

    def reset_waiting(self, out: Step) -> None:
        for i in np.flatnonzero(self._waiting):
            self.envs[i].reset(out.frame[i])
            self._age[i] = out.age[i] = 0
        self._waiting[:] = self._any_waiting = False
        for reserved in self._reserved:
            reserved.refill()

    @property
    def late_resets(self) -> int:
        return sum(reserved.late_resets for reserved in self._reserved)

    def get_state(self) -> list[bytes]:
        """Return the state of each environment. States may be saved and restored only between a `recv` and the next
        `send`."""
        return [
            pack_state(
                {"kind": "batch", "waiting": bool(waiting), "age": int(age), "rng": rng.bit_generator.state},
                env.get_state(),
            )
            for env, waiting, age, rng in zip(self.envs, self._waiting, self._age, self._rngs, strict=True)
        ]

    def set_state(self, states: list[bytes]) -> None:
        """Restore saved states. Raises ValueError for bytes that are corrupt or no saved state, and for a wrong number
        of states."""
        if len(states) != self.n:
            raise ValueError(f"{len(states)} states for {self.n} environments")
        for i, (env, state) in enumerate(zip(self.envs, states, strict=True)):
            header, blob = unpack_state(state, kind="batch")
            env.set_state(blob)
            self._waiting[i], self._age[i] = header["waiting"], header["age"]
            self._rngs[i].bit_generator.state = header["rng"]
        self._any_waiting = bool(self._waiting.any())
        self._action = None

    def close(self) -> None:
        for env in self.envs:
            env.close()
