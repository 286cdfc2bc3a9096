"""Emulated games with the interface of Gymnasium 0.29's vector environments, whose `infos` CleanRL's scripts read.

    envs = make("breakout", 8, seed=1)      # instead of gym.vector.SyncVectorEnv([make_env(...) for i in range(8)])

In the step that ends an episode, the next episode begins, and `infos["final_observation"]` has the last observation of
the ended episode. At game over, `infos["final_info"]` has `episode`, with the unclipped score `r` and the length `l` in
agent steps.
"""

from typing import Any

import numpy as np
from gymnasium.vector import AutoresetMode

from accel_rl.emulator.games import FIRE, task_game
from accel_rl.emulator.vector_env import VectorEnv


class Gymnasium029Env:
    """Observations are [num_envs, 4, 84, 84] uint8, and rewards [num_envs] float64."""

    def __init__(self, envs: VectorEnv, seed: int | None, episodic_life: bool, reward_clip: bool) -> None:
        self._envs = envs
        self._seed = seed
        self._clips = reward_clip
        self.num_envs = envs.num_envs
        self.single_observation_space = envs.single_observation_space
        self.single_action_space = envs.single_action_space
        self.observation_space, self.action_space = envs.observation_space, envs.action_space
        self._lives = LostLives(envs, count=episodic_life)
        self._sums = EpisodeSums(envs.num_envs)

    def reset(self, *, seed: int | None = None, options: None = None) -> tuple[np.ndarray, dict[str, Any]]:
        """Game i has the seed `seed` + i. If the first call has no seed, the seed of make() is used."""
        obs, info = self._envs.reset(seed=self._seed if seed is None else seed)
        self._seed = None
        self._lives.step(info["lives"], ended=np.ones(self.num_envs, bool))
        self._sums.reset()
        return obs, {"lives": info["lives"]}

    def step(self, actions: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, dict[str, Any]]:
        """(observations, rewards, terminations, truncations, infos)"""
        obs, points, over, late, info = self._envs.step(self._lives.actions(np.asarray(actions)))
        self._sums.add(points)
        ended = over | late
        lost = self._lives.step(info["lives"], ended)
        infos: dict[str, Any] = {"lives": info["lives"]}
        if (ended | lost).any():
            last, tells = np.full(self.num_envs, None, object), np.full(self.num_envs, None, object)
            for i in np.flatnonzero(ended | lost):
                last[i] = info["final_obs"][i] if ended[i] else obs[i]
                tells[i] = {"lives": int((info["final_info"] if ended[i] else info)["lives"][i])}
                if ended[i]:
                    tells[i]["episode"] = self._sums.end(i)
            infos |= {"final_observation": last, "_final_observation": ended | lost}
            infos |= {"final_info": tells, "_final_info": ended | lost}
        reward = np.sign(points) if self._clips else points
        return obs, reward.astype(np.float64), over | lost, late, infos

    def close(self) -> None:
        self._envs.close()


class EpisodeSums:
    def __init__(self, n: int) -> None:
        self._points, self._steps = np.zeros(n), np.zeros(n, np.int64)

    def reset(self) -> None:
        self._points[:] = self._steps[:] = 0

    def add(self, points: np.ndarray) -> None:
        """`points` [n] are the points that the agents won in a step."""
        self._points += points
        self._steps += 1

    def end(self, i: np.integer) -> dict[str, float | int]:
        """Return the sum of points `r` and the length `l` of an environment's episode, and begin its next episode."""
        sums = {"r": float(self._points[i]), "l": int(self._steps[i])}
        self._points[i] = self._steps[i] = 0
        return sums


class LostLives:
    """Detects lost lives in a VectorEnv in which an episode is a whole game. If `count` is False, no lost life is
    detected. If the game has the action FIRE, FIRE replaces the agent's action after a lost life."""

    def __init__(self, envs: VectorEnv, count: bool) -> None:
        self._count = count
        self._fire = envs.action_codes.index(FIRE) if FIRE in envs.action_codes else None
        self._lives = np.zeros(envs.num_envs, np.int32)
        self._lost = np.zeros(envs.num_envs, bool)

    def actions(self, actions: np.ndarray) -> np.ndarray:
        """Actions [num_envs] to play, with FIRE after a lost life."""
        return actions if self._fire is None else np.where(self._lost, self._fire, actions)

    def step(self, lives: np.ndarray, ended: np.ndarray) -> np.ndarray:
        """Return which environments lost a life, bool [num_envs]. `ended` marks environments whose game ended or
        began."""
        self._lost = (lives < self._lives) & ~ended & self._count
        self._lives = lives
        return self._lost


def make(
    task: str,
    num_envs: int,
    seed: int | None = None,
    *,
    episodic_life: bool = True,
    reward_clip: bool = True,
    **options: Any,
) -> Gymnasium029Env:
    """A lost life ends an episode, and rewards are -1, 0 or 1, as in CleanRL's make_env. `task` is a game's name, in
    the form of pong, Pong-v5 or PongNoFrameskip-v4. `options` are further options of VectorEnv. Raises ConfigError."""
    envs = VectorEnv(
        task_game(task), num_envs, autoreset_mode=AutoresetMode.SAME_STEP, reward_clipping=False, **options
    )
    return Gymnasium029Env(envs, seed, episodic_life, reward_clip)
