"""Wrappers that copy an environment's action mask from `info`, where Gymnasium's Taxi returns it, into the
observation."""

from collections.abc import Mapping
from typing import Any

import gymnasium
import numpy as np
from gymnasium.vector import VectorEnv, VectorWrapper
from gymnasium.vector.utils import batch_space

from accel_rl.text.errors import ConfigError
from accel_rl.text.notes import say_once

MASK = "action_mask"


class InfoMask(gymnasium.Wrapper[Any, Any, Any, Any]):
    """Adds the entry `action_mask` to an observation. An observation that is not a Dict becomes the entry `observation`
    of a Dict."""

    def __init__(self, id: str, env: gymnasium.Env[Any, Any]):
        super().__init__(env)
        self.observation_space = _with_mask(id, env.observation_space, env.action_space)

    def reset(self, **options: Any) -> tuple[Any, dict[str, Any]]:
        observation, info = self.env.reset(**options)
        return _joined(observation, _mask(info)), info

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        observation, reward, terminated, truncated, info = self.env.step(action)
        if terminated and MASK not in info:  # After a termination, no action is selected, so no mask is needed.
            info = {**info, MASK: np.zeros(self.observation_space[MASK].shape)}  # type: ignore[index]
        return _joined(observation, _mask(info)), reward, terminated, truncated, info


class VectorInfoMask(VectorWrapper):
    """`InfoMask` for a vector environment, with masks [n, actions] in `info`. If an environment resets itself in the
    step that ends an episode, `final_info` has the mask of the episode's last observation. After an episode has
    terminated, no mask is needed."""

    def __init__(self, id: str, env: VectorEnv[Any, Any, Any]):
        super().__init__(env)
        self.single_observation_space = _with_mask(id, env.single_observation_space, env.single_action_space)
        self.observation_space = batch_space(self.single_observation_space, env.num_envs)

    def reset(self, **options: Any) -> tuple[Any, dict[str, Any]]:
        observation, info = self.env.reset(**options)
        began = (options.get("options") or {}).get("reset_mask", np.ones(self.num_envs))
        return _joined(observation, self._masks(info, ~np.asarray(began, bool))), info

    def step(self, actions: Any) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        observation, reward, terminated, truncated, info = self.env.step(actions)
        over = np.asarray(terminated, bool)
        if "final_obs" in info:  # `observation` and `info` already belong to the next episodes.
            ended = np.array([x is not None for x in info["final_obs"]])
            masks = self._masks(info.get("final_info", {}), over | ~ended)
            last = [None if x is None else _joined(x, masks[i]) for i, x in enumerate(info["final_obs"])]
            info, over = {**info, "final_obs": last}, np.zeros(self.num_envs, bool)
        return _joined(observation, self._masks(info, over)), reward, terminated, truncated, info

    def _masks(self, info: Mapping[str, Any], optional: np.ndarray) -> np.ndarray:
        """Return the masks [n, actions] in `info`, with zeros for environments without a mask. Raises ValueError if a
        mask is missing where `optional` [n] is false. Gymnasium sets `_action_mask` [n] to true for environments with a
        mask."""
        if MASK not in info and optional.all():
            return np.zeros((self.num_envs, *self.single_observation_space[MASK].shape))  # type: ignore[index]
        masks = np.asarray(_mask(info))
        missing = ~np.asarray(info.get(f"_{MASK}", np.ones(self.num_envs)), bool)
        if (wrong := np.flatnonzero(missing & ~optional)).size:
            raise ValueError(f"info has no {MASK} of environment {wrong[0]}")
        return np.where(missing[:, None], 0, masks)


def say_ignored(id: str, info: Mapping[str, Any]) -> None:
    if MASK in info:
        say_once(f"{id}: info has an {MASK}, which no agent reads without --env.action-mask info")


def _with_mask(id: str, space: gymnasium.Space[Any], actions: gymnasium.Space[Any]) -> gymnasium.spaces.Dict:
    spaces = gymnasium.spaces
    if not isinstance(actions, spaces.Discrete):
        raise ConfigError(f"--env.action-mask info: id={id!r} has the action space {actions}: must be Discrete")
    entries = dict(space.spaces) if isinstance(space, spaces.Dict) else {"observation": space}
    return spaces.Dict({**entries, MASK: spaces.MultiBinary(int(actions.n))})


def _joined(observation: Any, mask: Any) -> dict[str, Any]:
    entries = observation if isinstance(observation, Mapping) else {"observation": observation}
    return {**entries, MASK: mask}


def _mask(info: Mapping[str, Any]) -> Any:
    if MASK not in info:
        raise ValueError(f"info has no {MASK}" + (f", only {', '.join(info)}" if info else "; it is empty"))
    return info[MASK]
