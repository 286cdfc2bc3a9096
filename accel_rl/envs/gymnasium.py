"""Any Gymnasium environment with a Discrete action space, by its id or by a factory."""

import importlib
import warnings
import zlib
from typing import Any

import gymnasium
import numpy as np

from accel_rl.data.spec import EnvSpec
from accel_rl.envs.base import episode_rng
from accel_rl.envs.state import pack, unpack
from accel_rl.system.errors import ConfigError, nearest


class GymnasiumEnv:
    """An `Env` around a Gymnasium environment.

    id: registered ("CartPole-v1"), or "module:function" where the function makes an environment.
    seed: whole number >= 0; every episode is reset with a seed of its own, drawn from it.
    stack: newest frames in an observation, of pictures alone.

    Observations: uint8 [H, W] stays a picture; uint8 [H, W, channels] is refused, since a flattened picture
    is of no use to a network; every other space is flattened to a float32 vector (Discrete: one-hot). Raises
    ConfigError.

    A state is the episode's seed and the actions since, replayed by `set_state`: exact wherever the
    environment is deterministic, at a cost that grows with the episode.
    """

    def __init__(self, id: str, seed: int, stack: int = 4) -> None:
        self.id = id
        self._env = env = _make(id)
        actions = env.action_space
        if not isinstance(actions, gymnasium.spaces.Discrete):
            raise ConfigError(f"id={id!r} has the action space {_line(actions)}: must be Discrete")
        self._first_action = int(actions.start)
        self._space = space = env.observation_space
        box, shape = isinstance(space, gymnasium.spaces.Box), space.shape or ()
        picture = box and space.dtype == np.uint8 and len(shape) >= 2
        if picture and len(shape) != 2:
            raise ConfigError(
                f"id={id!r} needs_obs pictures of shape {shape}: must be [H, W] (wrap it in"
                " gymnasium.wrappers.GrayscaleObservation; for Atari give game=)"
            )
        if not (picture or space.is_np_flattenable):
            raise ConfigError(f"id={id!r} needs_obs {_line(space)}: must flatten to a vector, or be uint8 [H, W]")
        self._flatten = not box
        self._seed, self._episode = seed, 0  # the next one's number
        self._episode_seed: int | None = None
        self._actions: list[int] = []
        self.spec = EnvSpec(
            name=id,
            frame_shape=shape if picture else (gymnasium.spaces.flatdim(space),),
            frame_dtype="uint8" if picture else "float32",
            n_actions=int(actions.n),
            stack=stack if picture else 1,
            protocol={"gymnasium": gymnasium.__version__, "max_episode_steps": _time_limit(env)},
        )
        self._shape = self.spec.frame_shape
        self._ended = False
        self._newest = np.zeros(self._shape, self.spec.frame_dtype)

    def reset(self, frame: np.ndarray, episode: int | None = None) -> None:
        episode = self._episode if episode is None else episode
        self._episode = episode + 1
        self._start(int(episode_rng(self._seed, episode).integers(2**31)), frame)

    def step(self, action: int, frame: np.ndarray) -> tuple[float, bool, bool, bool]:
        observation, reward, terminated, truncated, _ = self._env.step(self._first_action + action)
        self._actions.append(action)
        self._write(observation, frame)
        terminated = bool(terminated)
        self._ended = terminated or bool(truncated)
        return float(reward), terminated, self._ended and not terminated, self._ended

    def get_state(self) -> bytes:
        header = {
            "kind": "gymnasium",
            "id": self.id,
            "episode_seed": self._episode_seed,
            "actions": self._actions,
            "ended": self._ended,
            "newest": zlib.crc32(self._newest.tobytes()),
            "seed": self._seed,
            "episode": self._episode,
        }
        return pack(header)

    def set_state(self, state: bytes) -> None:
        """Replay the state's episode. ValueError for foreign or corrupt bytes, or for another end.

        Warns where the replay leads to another observation: the environment is not deterministic.
        """
        header, _ = unpack(state, kind="gymnasium", id=self.id)
        if header["episode_seed"] is not None:
            frame = np.zeros(self.spec.frame_shape, self.spec.frame_dtype)
            self._start(header["episode_seed"], frame)
            for action in header["actions"]:
                if self._ended:
                    break
                self.step(action, frame)
            if len(self._actions) != len(header["actions"]) or self._ended != header["ended"]:
                raise ValueError(f"id={self.id!r} is not deterministic: its episode replays to another end")
            if zlib.crc32(frame.tobytes()) != header["newest"]:
                warnings.warn(
                    f"id={self.id!r} is not deterministic: it goes on from another observation",
                    RuntimeWarning,
                    stacklevel=2,
                )
        self._seed, self._episode = header.get("seed", self._seed), header.get("episode", 1)

    def close(self) -> None:
        self._env.close()

    def _start(self, episode_seed: int, frame: np.ndarray) -> None:
        self._episode_seed, self._actions, self._ended = episode_seed, [], False
        observation, _ = self._env.reset(seed=episode_seed)
        self._write(observation, frame)

    def _write(self, observation: Any, frame: np.ndarray) -> None:
        if self._flatten:
            observation = gymnasium.spaces.flatten(self._space, observation)
        np.copyto(frame, np.reshape(observation, self._shape), casting="unsafe")
        np.copyto(self._newest, frame)  # a state is checked against it


def _make(id: str) -> gymnasium.Env:
    module_name, _, name = id.partition(":")
    if name:
        try:
            make = getattr(importlib.import_module(module_name), name, None)
        except ImportError as e:
            raise ConfigError(f"id={id!r}: cannot import {module_name!r} ({_line(e)})") from e
        if make is not None:
            env = make()
            if not isinstance(env, gymnasium.Env):
                raise ConfigError(f"id={id!r} returned {type(env).__name__}: must be a gymnasium.Env")
            return env
    try:  # "module:Name-v0" is Gymnasium's own way to import a module that registers Name-v0
        return gymnasium.make(id, disable_env_checker=True)
    except gymnasium.error.DependencyNotInstalled as e:
        raise ConfigError(f"id={id!r} lacks a package: {_line(e)}") from e
    except (gymnasium.error.Error, ImportError) as e:
        names = list(gymnasium.registry)
        raise ConfigError(
            f"id={id!r} is unknown: must be one of Gymnasium's {len(names)} ids, or module:function"
            + nearest(id, names)
        ) from e


def _time_limit(env: gymnasium.Env) -> int | None:
    return env.spec.max_episode_steps if env.spec is not None else None


def _line(text: object) -> str:
    return " ".join(str(text).split())
