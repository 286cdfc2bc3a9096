"""Gymnasium environments, given by an id or a factory function."""

import importlib.util
import inspect
import math
import re
import warnings
import zlib
from collections import OrderedDict
from collections.abc import Callable, Mapping
from importlib.metadata import entry_points
from typing import Any

import gymnasium
import numpy as np

from accel_rl.data.spec import EnvSpec
from accel_rl.envs.environment import EnvError, episode_rng, pack_state, unpack_state
from accel_rl.envs.episode_info import INFO_BYTES, episode_info
from accel_rl.envs.global_generators import OwnGenerators
from accel_rl.envs.info_mask import MASK, InfoMask, say_ignored
from accel_rl.envs.pictures import MixedLayout, check_flat, mixed_layout, picture_layout
from accel_rl.text.errors import ConfigError, exit_call, nearest, no_exit
from accel_rl.text.imports import import_user_module


class GymnasiumEnv:
    """Adapts a Gymnasium environment to `Env`.

    `id` is a registered id ("CartPole-v1"), or "module:function", where the function creates an environment. `seed` is
    a whole number >= 0. Each episode is reset with its own seed, which depends on `seed` and the episode's number.
    `stack` is the number of stacked frames if observations are pictures. An episode is truncated after `limit` steps,
    or, if `limit` is None, only by the environment's own limit. With `render`, the environment is created with
    render_mode="rgb_array", which `screen_rgb` needs. `kwargs` are keyword arguments of the environment. A user's
    function also receives the arguments `index` (the environment's index in the run) and `training` (whether the
    environment is for training), if it has these parameters. With `mask_in_info`, the action mask in `info` becomes a
    part of the observation.

    Observation spaces [H, W], [H, W, C] or [C, H, W] of uint8, bool or floats are pictures, with frames [H, W] or [C,
    H, W]; see `picture_layout`. A Dict space may contain at most one picture (`mixed_layout`). Other observation spaces
    are flattened to a float32 vector (Discrete: one-hot). Raises ConfigError if a flattened space contains a picture.

    An episode's seed also seeds the environment's own states of the global generators of `numpy.random` and `random`.
    If the environment has the methods `get_state()`, which returns bytes, and `set_state(bytes)`, a saved state
    contains these bytes. Without `get_state` and `set_state`, and with `restore` "replay", a saved state contains the
    episode's seed and actions, and `set_state` plays the actions again. Replaying the actions is exact if the
    environment is deterministic, and slow in a long episode. With `restore` "new", a restored episode is always
    truncated at its next step.
    """

    def __init__(
        self,
        id: str,
        seed: int,
        stack: int = 4,
        limit: int | None = None,
        render: bool = False,
        kwargs: Mapping[str, Any] | None = None,
        index: int = 0,
        training: bool = True,
        restore: str = "replay",
        mask_in_info: bool = False,
    ) -> None:
        self.id, self._limit = id, limit
        kwargs = dict(kwargs or {})
        offers = {"index": index, "training": training, **({"render_mode": "rgb_array"} if render else {})}
        self._generators = OwnGenerators(seed, is_needed=not _is_of_gymnasium(id))
        with self._generators:
            inner: Any = _make(id, kwargs, offers)
        self._env = env = InfoMask(id, inner) if mask_in_info else inner
        has_states = all(callable(getattr(inner, name, None)) for name in ("get_state", "set_state"))
        self._saved = inner if has_states else None
        self._action_space = env.action_space
        self._observations = Observations(id, env.observation_space, env.action_space, stack)
        self._seed, self._episode = seed, 0
        self._says_ignored = training and not index and not self._observations.fields["mask"]
        self._episode_seed: int | None = None
        self._restores = restore == "replay"
        self._is_replayed = self._restores and self._saved is None
        self._steps = 0
        self._actions: list[Any] = []  # actions of the current episode, if a restore may replay them
        self.is_lost = False  # True if a restore could not continue the episode, until the episode is truncated
        self.episode_info: dict[str, float] = {}
        self.spec = EnvSpec(
            name=id,
            **self._observations.fields,
            **action_fields(id, env.action_space),
            protocol={
                "gymnasium": gymnasium.__version__,
                "max_episode_steps": _time_limit(env),
                **({"kwargs": kwargs} if kwargs else {}),
                **({MASK: "info"} if mask_in_info else {}),
            },
            info_bytes=INFO_BYTES,
        ).limited(limit)
        self._ended = False
        self._newest = np.zeros(self.spec.frame_shape, self.spec.frame_dtype)

    def reset(self, frame: np.ndarray, episode: int | None = None) -> None:
        episode = self._episode if episode is None else episode
        self._episode = episode + 1
        self._start(int(episode_rng(self._seed, episode).integers(2**31)), frame)

    def step(self, action: Any, frame: np.ndarray) -> tuple[float, bool, bool, bool]:
        """`action` is a number, or a list of numbers."""
        if self.is_lost:
            np.copyto(frame, self._newest)
            self.is_lost = False
            self._ended = True
            self.episode_info = {}
            return 0.0, False, True, True
        self._steps += 1
        if self._is_replayed:
            self._actions.append(action)
        try:
            with self._generators:
                observation, reward, terminated, truncated, info = self._env.step(element(self._action_space, action))
            self._write(observation, frame)
            reward = float(reward)
        except (Exception, SystemExit) as e:
            raise EnvError(self, self._failed("step", e)) from e
        if math.isinf(reward):  # A reward of NaN is allowed, because updates with a loss of NaN are skipped.
            raise EnvError(self, self._failed("step", ValueError(f"the reward is {reward}")))
        terminated = bool(terminated)
        self._ended = terminated or bool(truncated) or self._steps == self._limit
        if self._ended:
            self.episode_info = episode_info(info)
        return reward, terminated, self._ended and not terminated, self._ended

    def get_state(self) -> bytes:
        header = {
            "kind": "gymnasium",
            "id": self.id,
            "episode_seed": self._episode_seed,
            "steps": self._steps,
            "actions": self._actions,
            "ended": self._ended,
            "newest": zlib.crc32(self._newest.tobytes()),
            "seed": self._seed,
            "episode": self._episode,
            "is_saved": self._saved is not None and self._episode_seed is not None and not self.is_lost,
        }
        if self._saved is None or not header["is_saved"]:
            return pack_state(header, self._newest.tobytes())
        state, generators = self._own_state(self._saved), self._generators.get_state()
        return pack_state({**header, "generators": len(generators)}, self._newest.tobytes() + generators + state)

    def _own_state(self, env: Any) -> bytes:
        try:
            with self._generators:
                state = env.get_state()
            if not isinstance(state, bytes):
                raise TypeError(f"the result is of type {type(state).__name__}, and must be bytes")
        except Exception as e:
            raise EnvError(self, f"{self.id} failed at get_state: {cause(e)}") from e
        return state

    def set_state(self, state: bytes) -> None:
        """Restore the saved episode, or set `is_lost`, so that the episode is truncated at the next step. Raises
        ValueError for bytes that are corrupt or no saved state. If replaying the actions does not lead to the saved
        state, a warning says that the environment is not deterministic, and `is_lost` is set."""
        header, blob = unpack_state(state, kind="gymnasium", id=self.id)
        frame = np.zeros(self.spec.frame_shape, self.spec.frame_dtype)
        if header["episode_seed"] is not None:
            steps, saved = header["steps"], self._saved if header["is_saved"] and self._restores else None
            can_replay = self._is_replayed and len(header["actions"]) == steps
            if saved is not None or can_replay or not steps:
                self._start(header["episode_seed"], frame)
            if saved is not None:
                end = frame.nbytes + header["generators"]
                try:
                    with self._generators:
                        saved.set_state(blob[end:])
                except Exception as e:
                    why = f"{self.id} failed at set_state: {cause(e)}"
                    raise EnvError(self, f"{why}; with --env.restore new, another episode begins instead") from e
                self._generators.set_state(blob[frame.nbytes : end])
            elif can_replay:
                self._replay(header)
            else:
                self.is_lost = bool(steps) and not header["ended"]
            self._episode_seed, self._steps, self._ended = header["episode_seed"], steps, header["ended"]
            self._newest[:] = np.frombuffer(blob, frame.dtype, frame.size).reshape(frame.shape)
        self._seed, self._episode = header["seed"], header["episode"]

    def _replay(self, header: dict[str, Any]) -> None:
        if header["steps"] >= LONG:
            text = f"{self.id}: {header['steps']:,} steps of an episode are played again, to restore it"
            warnings.warn(f"{text}; with --env.restore new, another episode begins instead", stacklevel=3)
        frame = self._newest.copy()
        for action in header["actions"]:
            if self._ended:
                break
            self.step(action, frame)
        restored = self._steps, self._ended, zlib.crc32(frame.tobytes())
        if restored != (header["steps"], header["ended"], header["newest"]):
            warnings.warn(
                f"id={self.id!r} is not deterministic: its episode cannot be continued, and a new one begins",
                RuntimeWarning,
                stacklevel=3,
            )
            self.is_lost = not header["ended"]

    @property
    def render_fps(self) -> float:
        return float(self._env.metadata.get("render_fps") or 30)

    def screen_rgb(self) -> np.ndarray:
        """Return the rendered environment [H, W, 3] uint8, or its observation if it is not rendered. Raises ConfigError
        if neither the rendering nor the observation is a picture of bytes."""
        try:
            screen = self._env.render() if self._env.render_mode == "rgb_array" else None
        except Exception as e:
            raise ConfigError(f"id={self.id!r} cannot be rendered: {_line(e)}") from e
        if isinstance(screen, np.ndarray) and screen.ndim == 3:
            return screen[..., :3].astype(np.uint8)
        if self._newest.ndim == 1 or self._newest.dtype != np.uint8:
            raise ConfigError(
                f"id={self.id!r} renders no pictures: make it with render_mode='rgb_array' (a function that has the "
                "parameter render_mode gets it)"
            )
        channels = self._newest.reshape(-1, *self._newest.shape[-2:])
        return np.moveaxis(channels if len(channels) == 3 else channels[-1:].repeat(3, 0), 0, -1)

    def report_faults(self) -> None:
        """Play one step under Gymnasium's checker, and issue the checker's findings as warnings. Errors that the
        environment raises are ignored here, because the run will report them and their step."""
        checker = gymnasium.wrappers.PassiveEnvChecker(self._env)
        with warnings.catch_warnings(record=True) as caught, self._generators:
            warnings.simplefilter("always")
            try:
                checker.reset(seed=0)
                checker.step(self._action_space.sample())
            except AssertionError as e:
                warnings.warn(str(e), stacklevel=2)
            except Exception:
                pass
        env: Any = self._env
        while isinstance(env, gymnasium.Wrapper):
            if isinstance(env, STATEFUL):
                text = f"{self.id}: evaluations and resumed runs do not have the statistics of {type(env).__name__}"
                warnings.warn(f"{text}; --normalize and --normalize-rewards keep them", stacklevel=2)
            env = env.env
        space = self._observations.space
        high = float(space.high.max()) if isinstance(space, gymnasium.spaces.Box) and space.dtype.kind == "f" else 0.0
        if self._observations.picture and 100 < high < math.inf:
            text = f"{self.id}: pictures of floats up to {high:g} are not divided: scale them to 1"
            warnings.warn(text, stacklevel=2)
        for warning in caught:
            text = re.sub(r"\x1b\[[0-9]*m|WARN: ", "", str(warning.message))
            warnings.warn(f"{self.id}: Gymnasium's checker: {_line(text)}", stacklevel=2)

    def close(self) -> None:
        self._env.close()

    def _start(self, episode_seed: int, frame: np.ndarray) -> None:
        self._episode_seed = episode_seed
        self._steps, self._actions = 0, []
        self._ended = False
        self.is_lost = False
        self._generators.seed(episode_seed)
        try:
            with self._generators:
                observation, info = self._env.reset(seed=episode_seed)
            self._write(observation, frame)
        except (Exception, SystemExit) as e:
            raise EnvError(self, self._failed("reset", e)) from e
        if self._says_ignored:
            say_ignored(self.id, info)

    def _failed(self, act: str, error: Exception | SystemExit) -> str:
        """Return an error message of one line. `act` is "step" or "reset"."""
        call = f"step {self._steps:,}" if act == "step" else "the reset"
        return f"{self.id} failed at {call} of episode {self._episode:,}: {cause(error)}"

    def _write(self, observation: Any, frame: np.ndarray) -> None:
        np.copyto(frame, self._observations.frame(observation), casting="unsafe")
        np.copyto(self._newest, frame)  # After replaying actions, `set_state` compares this frame with the saved one.


def _make(id: str, kwargs: dict[str, Any], offers: dict[str, Any]) -> gymnasium.Env:
    """Create the environment. Raises ConfigError if the environment's code tries to end the process."""
    with no_exit(lambda call: ConfigError(f"id={id!r}: {call} while the environment was made")):
        make = user_function(id)
        return _made_by_id(id, kwargs, offers) if make is None else _made_by(make, id, kwargs, offers)


LONG = 10_000  # Replaying an episode of at least LONG steps issues a warning.
STATEFUL = (gymnasium.wrappers.NormalizeObservation, gymnasium.wrappers.NormalizeReward)


def _mask_size(space: gymnasium.Space[Any], actions: gymnasium.Space[Any]) -> int:
    """Return the number of actions in the action mask of a Dict space, or 0 without a mask."""
    spaces = gymnasium.spaces
    if not (isinstance(space, spaces.Dict) and MASK in space.spaces and isinstance(actions, spaces.Discrete)):
        return 0
    part = space[MASK]
    return int(actions.n) if isinstance(part, spaces.Box | spaces.MultiBinary) and part.shape == (actions.n,) else 0


class Observations:
    """Converts observations of a space to frames. Raises ConfigError for spaces that cannot be converted.

    If a Dict has an entry `action_mask` with one number per action, this mask is the last part of a frame."""

    def __init__(self, id: str, space: gymnasium.Space[Any], actions: gymnasium.Space[Any], stack: int):
        if mask := _mask_size(space, actions):
            assert isinstance(space, gymnasium.spaces.Dict)
            parts = sorted(space.items(), key=lambda part: part[0] == MASK)
            space = gymnasium.spaces.Dict(OrderedDict(parts))  # Gymnasium keeps the order of an OrderedDict.
        self.space, self.picture = space, picture_layout(space) or mixed_layout(space)
        if self.picture is None:
            check_flat(f"id={id!r}", space)
            if not space.is_np_flattenable:
                raise ConfigError(f"id={id!r} observes {_line(space)}: must flatten to a vector, or be a picture")
        mixed = self.picture.picture if isinstance(self.picture, MixedLayout) else None
        self.frame_shape = self.picture.frame_shape if self.picture else (gymnasium.spaces.flatdim(space),)
        self.fields: dict[str, Any] = {
            "frame_shape": self.frame_shape,
            "frame_dtype": self.picture.dtype if self.picture else "float32",
            "stack": stack if self.picture and not mixed else 1,
            "mask": mask,
            "picture_shape": mixed.frame_shape if mixed else (),
            "picture_dtype": mixed.dtype if mixed else "",
        }

    def frame(self, observation: Any) -> np.ndarray:
        """Return a frame [*frame_shape]. Raises ValueError if the observation's shape is not that of the space."""
        if self.picture is not None:
            observation = self.picture.frame(observation)
        elif not isinstance(self.space, gymnasium.spaces.Box):
            observation = gymnasium.spaces.flatten(self.space, observation)
        elif np.shape(observation) != self.space.shape:
            raise ValueError(f"the observation has the shape {np.shape(observation)}, its space {self.space.shape}")
        return np.reshape(observation, self.frame_shape)


def action_fields(id: str, space: gymnasium.Space[Any]) -> dict[str, Any]:
    """Return the fields of an `EnvSpec` that describe the actions. Raises ConfigError for action spaces that are not
    supported."""
    spaces = gymnasium.spaces
    if isinstance(space, spaces.Discrete):
        return {"n_actions": int(space.n)}
    if isinstance(space, spaces.MultiDiscrete | spaces.MultiBinary):
        choices = space.nvec.ravel() if isinstance(space, spaces.MultiDiscrete) else [2] * int(np.prod(space.shape))
        return {"choices": tuple(map(int, choices)), "n_actions": int(sum(choices))}
    if isinstance(space, spaces.Box) and np.issubdtype(space.dtype, np.floating) and space.shape:
        most = float(np.finfo(np.float32).max)
        low, high = (tuple(np.clip(x.ravel(), -most, most).tolist()) for x in (space.low, space.high))
        return {"low": low, "high": high, "n_actions": len(low)}
    raise ConfigError(
        f"id={id!r} has the action space {_line(space)}: must be Discrete, MultiDiscrete, MultiBinary or Box of floats"
    )


def element(space: gymnasium.Space[Any], action: Any) -> Any:
    """Convert an agent's action, a number or a list of numbers, to an element of the space."""
    if isinstance(space, gymnasium.spaces.Discrete):
        return int(space.start) + action
    x = np.asarray(action, space.dtype).reshape(space.shape)
    if isinstance(space, gymnasium.spaces.Box):
        return np.clip(x, space.low, space.high)
    return x + space.start if isinstance(space, gymnasium.spaces.MultiDiscrete) else x


def registered(id: str) -> Any:
    """Return Gymnasium's registry entry of an id, or None. If the id has the namespace of an installed package, such as
    MinAtar/, the package's ids are registered first, because Gymnasium 1 does not register them itself."""
    if id not in gymnasium.registry:
        for package in entry_points(group="gymnasium.envs", name=id.partition("/")[0]):
            package.load()()
    return gymnasium.registry.get(id)


def _is_of_gymnasium(id: str) -> bool:
    """Return whether an id is of Gymnasium's own environments, which do not draw from global generators."""
    spec = registered(id)
    return spec is not None and str(spec.entry_point).startswith("gymnasium.envs.")


def user_function(id: str) -> Callable[..., Any] | None:
    """Import the user's function from an id "module:function", or return None for an id without a colon. Raises
    ConfigError."""
    module_name, _, name = id.partition(":")
    if not name:
        return None
    try:
        return getattr(import_user_module(module_name), name, None)
    except ImportError as e:
        raise ConfigError(f"id={id!r}: cannot import {module_name!r} ({_line(e)})") from e


def _made_by(make: Callable[..., Any], id: str, kwargs: dict[str, Any], offers: dict[str, Any]) -> gymnasium.Env:
    env = called(make, id, kwargs, offers)
    if isinstance(env, gymnasium.vector.VectorEnv):
        raise ConfigError(f"id={id!r} returned a vector environment: its function needs the parameter num_envs")
    if not isinstance(env, gymnasium.Env):
        raise ConfigError(f"id={id!r} returned {type(env).__name__}: must be a gymnasium.Env")
    return env


def called(make: Callable[..., Any], id: str, kwargs: dict[str, Any], offers: dict[str, Any]) -> Any:
    """Call a user's function with all `kwargs`, and with those arguments in `offers` that are parameters of the
    function."""
    parameters = inspect.signature(make).parameters
    names = [p.name for p in parameters.values() if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)]
    if not any(p.kind is p.VAR_KEYWORD for p in parameters.values()):
        for name in kwargs:
            if name not in names:
                allowed = ", ".join(names) or "none"
                raise ConfigError(f"kwargs: {id} has no parameter {name!r}; it has {allowed}{nearest(name, names)}")
    return make(**{name: x for name, x in offers.items() if name in names} | kwargs)


def cause(error: Exception | SystemExit) -> str:
    """Return one line about an error in the user's code."""
    return exit_call(error) if isinstance(error, SystemExit) else f"{type(error).__name__}: {_line(error)}"


def missing_renderer(id: str) -> str:
    """Return the result of `renderer_install`, or "" if pygame is installed."""
    return "" if importlib.util.find_spec("pygame") else renderer_install(id)


def renderer_install(id: str) -> str:
    """Return the command that installs what one of Gymnasium's own environments needs for rendering, or "" for other
    ids."""
    spec = gymnasium.registry.get(id)
    packaged = re.match(r"gymnasium\.envs\.(classic_control|toy_text|box2d)\.", str(spec and spec.entry_point))
    return f"pip install 'gymnasium[{packaged[1].replace('_', '-')}]'" if packaged else ""


def _made_by_id(id: str, kwargs: dict[str, Any], offers: dict[str, Any]) -> gymnasium.Env:
    options = {"render_mode": offers["render_mode"]} if "render_mode" in offers else {}
    try:  # For an id "module:Name-v0", Gymnasium imports the module.
        return gymnasium.make(id, disable_env_checker=True, **options | kwargs)
    except gymnasium.error.DependencyNotInstalled as e:
        raise ConfigError(f"id={id!r} lacks a package: {_line(e)}") from e
    except (gymnasium.error.Error, ImportError) as e:
        names = list(gymnasium.registry)
        if id.partition(":")[2] in names or id in names:
            raise ConfigError(f"id={id!r} cannot be made: {type(e).__name__}: {_line(e)}") from e
        module, colon, name = id.partition(":")
        if colon:
            raise ConfigError(
                f"id={id!r}: {module} has no {name}{nearest(name, dir(import_user_module(module)))}"
            ) from e
        raise ConfigError(
            f"id={id!r} is unknown: must be one of Gymnasium's {len(names)} ids, or module:function"
            + nearest(id, names)
        ) from e
    except TypeError as e:
        if not kwargs:
            raise
        raise ConfigError(f"kwargs {kwargs} of id={id!r}: {_line(e)}") from e


def _time_limit(env: gymnasium.Env) -> int | None:
    """Return the smallest time limit of the environment's TimeLimit wrappers. (`env.spec` may contain a limit that no
    wrapper applies.)"""
    limits: list[int] = []
    while isinstance(env, gymnasium.Wrapper):
        if isinstance(env, gymnasium.wrappers.TimeLimit):
            limits.append(env._max_episode_steps)
        env = env.env
    return min(limits, default=None)


def _line(text: object) -> str:
    return " ".join(str(text).split())
