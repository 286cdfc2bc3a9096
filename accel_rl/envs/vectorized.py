"""A user's vector environment, written for example with JAX or in C++, as a `BatchEnv`."""

import inspect
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import gymnasium
import numpy as np
from gymnasium.vector import AutoresetMode, VectorEnv

from accel_rl.data.rollout_arrays import Step, is_skipped
from accel_rl.data.spec import EnvSpec
from accel_rl.envs.environment import EnvError, pack_state, unpack_state
from accel_rl.envs.gymnasium import Observations, action_fields, called, cause, element, user_function
from accel_rl.envs.info_mask import MASK, VectorInfoMask, say_ignored
from accel_rl.text.errors import ConfigError, no_exit


def is_vectorized(id: str) -> bool:
    """Return whether an id names a user's function that makes a vector environment, which has the parameter
    `num_envs`."""
    make = user_function(id)
    return callable(make) and "num_envs" in inspect.signature(make).parameters


class VectorizedEnv:
    """Adapts a gymnasium.vector.VectorEnv of n environments, with any autoreset mode, to `BatchEnv`.

    `id` is "module:function". The function is called with `num_envs` and the keyword arguments `kwargs`. If the
    function has the parameters `index` (the first environment's index in the run), `training` or `device` (the
    learner's device with --sampler.engine device, otherwise "cpu"), it also gets these arguments. Observations and
    rewards may be arrays of any library.

    A step is not `valid` for an environment that the step only resets (AutoresetMode.NEXT_STEP), or whose action is
    negative. The environments can be saved if they have the methods `get_state()`, which returns bytes, and
    `set_state(bytes)`. Without `get_state` and `set_state`, a resumed run truncates the current episodes and begins new
    ones. No random decorrelation actions are played, and time limits are those of the vector environment.
    """

    def __init__(
        self,
        id: str,
        n: int,
        seed: int,
        stack: int,
        kwargs: Mapping[str, Any],
        index: int = 0,
        training: bool = True,
        device: str = "cpu",
        mask_in_info: bool = False,
    ):
        self.id, self.n, self._seed, self._resets = id, n, seed, 0
        make: Any = user_function(id)
        with no_exit(lambda call: ConfigError(f"id={id!r}: {call} while the environment was made")):
            offers = {"num_envs": n, "index": index, "training": training, "device": device}
            env = called(make, id, dict(kwargs), offers)
        if not isinstance(env, VectorEnv) or env.num_envs != n:
            got = f"{env.num_envs} environments" if isinstance(env, VectorEnv) else type(env).__name__
            raise ConfigError(f"id={id!r} returned {got}: must be a gymnasium.vector.VectorEnv of num_envs={n}")
        env = VectorInfoMask(id, env) if mask_in_info else env
        self.vector_env: VectorEnv[Any, Any, Any] = env
        self.mode = AutoresetMode(env.metadata.get("autoreset_mode", AutoresetMode.NEXT_STEP))
        self.observations = Observations(id, env.single_observation_space, env.single_action_space, stack)
        self._is_box = self.observations.picture is None and isinstance(
            env.single_observation_space, gymnasium.spaces.Box
        )
        self.spec = EnvSpec(
            name=id,
            **self.observations.fields,
            **action_fields(id, env.single_action_space),
            protocol={
                "gymnasium": gymnasium.__version__,
                "autoreset": self.mode.value,
                "max_episode_steps": None,
                **({"kwargs": dict(kwargs)} if kwargs else {}),
                **({MASK: "info"} if mask_in_info else {}),
            },
        )
        self._says_ignored = training and not index and not self.spec.mask
        self.late_resets = 0
        self.age = np.zeros(n, np.uint8)
        self.over = np.zeros(n, bool)  # Whether the next step of each environment only resets the environment
        self.newest = np.zeros((n, *self.spec.frame_shape), self.spec.frame_dtype)
        self.is_lost = False
        self._action: np.ndarray | None = None

    def reset(self, out: Step) -> None:
        self._begin(out.frame)
        out.clear()

    def send(self, action: np.ndarray) -> None:
        self._action = action

    def recv(self, out: Step) -> None:
        assert self._action is not None, "recv without send"
        action, self._action = self._action, None
        if self.is_lost:
            self._cut(out)
            return
        skipped = is_skipped(action)
        # A vector environment steps all its environments, so skipped ones play action 0.
        played = np.where(skipped.reshape(-1, *[1] * (action.ndim - 1)), 0, action)
        with self.named("a step"):
            obs, reward, terminated, truncated, info = self.vector_env.step(
                element(self.vector_env.action_space, played.tolist())
            )
        valid = ~(skipped | self.over)
        ends = [np.asarray(on_host(x), bool).reshape(self.n) for x in (terminated, truncated)]
        over = (ends[0] | ends[1]) & ~self.over
        self._write(obs, out.frame)
        out.reward[:] = np.where(valid, np.asarray(on_host(reward)).reshape(self.n), 0)
        out.valid[:] = valid
        out.terminated[:] = ends[0] & valid
        out.truncated[:] = ends[1] & ~ends[0] & valid
        out.ended[:] = ended = over & valid
        self.age = np.where(valid, np.minimum(self.age + 1, self.spec.oldest), 0).astype(np.uint8)
        if over.any():
            self._end(obs, info, over, out)
        self.over = over & (self.mode is AutoresetMode.NEXT_STEP)
        self.age[ended & ~self.over] = 0
        out.age[:] = self.age
        self.newest[:] = out.frame

    def _end(self, obs: Any, info: dict[str, Any], over: np.ndarray, out: Step) -> None:
        """Write the last frames of the episodes that have ended, and the first frames of the next episodes."""
        if self.mode is AutoresetMode.SAME_STEP:
            with self.named("a step"):
                if "final_obs" not in info:
                    raise ValueError("info has no final_obs at the end of an episode")
                for i in np.flatnonzero(over):
                    out.final_frame[i] = self.observations.frame(on_host(info["final_obs"][i]))
            return
        out.final_frame[over] = out.frame[over]
        if self.mode is AutoresetMode.DISABLED:
            with self.named("a reset"):
                obs, _ = self.vector_env.reset(options={"reset_mask": over})
            self._write(obs, out.frame, over)

    def reseed(self, seed: int) -> None:
        self._seed, self._resets = seed, 0

    def reset_waiting(self, out: Step) -> None:
        """Do nothing, because the vector environment resets itself."""

    def get_state(self) -> list[bytes]:
        """Return one state per environment. The first state also contains the state of the vector environment."""
        env: Any = self.vector_env.unwrapped
        blob = env.get_state() if hasattr(env, "get_state") and hasattr(env, "set_state") else b""
        header = {"kind": "vectorized", "id": self.id, "is_saved": bool(blob), "resets": self._resets}
        rows = zip(self.age, self.over, self.newest, strict=True)
        return [
            pack_state(
                {**header, "age": int(age), "over": bool(over), "bytes": newest.nbytes},
                newest.tobytes() + (b"" if i else blob),
            )
            for i, (age, over, newest) in enumerate(rows)
        ]

    def set_state(self, states: list[bytes]) -> None:
        """Restore saved states. Raises ValueError for a wrong number of states, or for bytes that are no saved
        states."""
        if len(states) != self.n:
            raise ValueError(f"{len(states)} states for {self.n} environments")
        blob = b""
        for i, state in enumerate(states):
            header, data = unpack_state(state, kind="vectorized", id=self.id)
            self.age[i], self.over[i], self._resets = header["age"], header["over"], header["resets"]
            size = header["bytes"]
            self.newest[i] = np.frombuffer(data[:size], self.spec.frame_dtype).reshape(self.spec.frame_shape)
            blob = blob or data[size:]
        env: Any = self.vector_env.unwrapped
        self.is_lost = not (header["is_saved"] and hasattr(env, "set_state"))
        if self.is_lost:
            warnings.warn(f"id={self.id!r} has no get_state and set_state: new episodes begin", stacklevel=2)
        else:
            self.vector_env.reset(seed=0)  # Wrappers expect a reset before the first step.
            env.set_state(blob)

    def report_faults(self) -> None:
        """Do nothing, because Gymnasium has no checker for vector environments."""

    def close(self) -> None:
        self.vector_env.close()

    def _begin(self, frame: np.ndarray) -> None:
        with self.named("the reset"):
            obs, info = self.vector_env.reset(seed=self.next_seed())
        self._write(obs, frame)
        if self._says_ignored:
            say_ignored(self.id, info)
        self.age[:] = 0
        self.over[:] = False
        self.newest[:] = frame

    @contextmanager
    def named(self, call: str) -> Iterator[None]:
        """Convert an error in the user's code to an `EnvError` with a message of one line."""
        try:
            yield
        except (Exception, SystemExit) as e:
            raise EnvError(self, f"{self.id} failed at {call}: {cause(e)}") from e

    def next_seed(self) -> int:
        self._resets += 1
        return int(np.random.SeedSequence(self._seed, spawn_key=(self._resets,)).generate_state(1)[0] >> 1)

    def _cut(self, out: Step) -> None:
        """Truncate all episodes, because their states were not saved, and begin new ones."""
        valid = ~self.over
        out.final_frame[:] = self.newest
        out.reward[:] = 0
        out.terminated[:] = False
        out.truncated[:] = out.ended[:] = out.valid[:] = valid
        self._begin(out.frame)
        out.age[:] = 0
        self.is_lost = False

    def _write(self, obs: Any, frame: np.ndarray, where: Any = slice(None)) -> None:
        if self._is_box:
            frame[where] = on_host(obs).reshape(self.n, *self.spec.frame_shape)[where]
            return
        rows = gymnasium.vector.utils.iterate(self.vector_env.observation_space, on_host(obs))
        chosen = np.arange(self.n)[where]
        for i, row in enumerate(rows):
            if i in chosen:
                frame[i] = self.observations.frame(row)


def on_host(x: Any) -> Any:
    """Convert an array of any library, or the arrays in a dict or tuple, to NumPy arrays."""
    if isinstance(x, Mapping):
        return {name: on_host(value) for name, value in x.items()}
    if isinstance(x, tuple):
        return tuple(map(on_host, x))
    return np.asarray(x.cpu() if hasattr(x, "cpu") else x)
