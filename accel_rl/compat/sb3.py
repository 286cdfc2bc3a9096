"""Atari games by the rules and with the interface of Stable-Baselines3's vector environments.

    model = PPO("CnnPolicy", SB3VecEnv("breakout", 8, seed=1), n_steps=128)

The example builds PPO on eight emulated games. The rules are those of SB3's `make_atari_env`:

    | agent      one life is one episode, rewards are -1, 0 or 1
    | Monitor    infos["episode"] has the score and the length of a whole game
    | lost life  a no-op, then FIRE and the next action in games with FIRE, as SB3's EpisodicLifeEnv and FireResetEnv
"""

import time
from collections.abc import Sequence
from typing import Any

import numpy as np
from gymnasium.vector import AutoresetMode
from stable_baselines3.common.monitor import Monitor
from stable_baselines3.common.vec_env.base_vec_env import VecEnv

from accel_rl.emulator.games import FIRE, task_game
from accel_rl.emulator.vector_env import GameNumbers, VectorEnv, VectorInfo
from accel_rl.text.errors import ConfigError

NOOP = 0


class SB3VecEnv(VecEnv):  # type: ignore[misc]  # The package may be missing.
    """`n_envs` games with the interface of SB3's VecEnv and the arguments of SB3's `make_atari_env` and AtariWrapper.
    Observations are [n_envs, stack_num, 84, 84] uint8; with the default stack of 4, SB3's VecFrameStack is not needed.

    `task` is a game's name, in the form of pong, Pong-v5 or PongNoFrameskip-v4. With `terminal_on_life_loss`, a lost
    life ends the agent's episode, and the game continues. With `clip_reward`, rewards are the signs of the game's
    points. `options` are further options of `VectorEnv`. The number of no-ops after a reset is drawn as in `VectorEnv`.

    The infos have `lives`, `frame_number`, `episode_frame_number` and `TimeLimit.truncated`. At the end of an episode,
    the infos have `terminal_observation`. At the end of a game, the infos have `episode`, as from SB3's Monitor: `r` is
    the sum of the game's points over all lives, `l` the number of emulated frames, and `t` the seconds since the
    environments were created. Raises ConfigError.
    """

    def __init__(
        self,
        task: str,
        n_envs: int = 1,
        seed: int | None = None,
        *,
        noop_max: int = 30,
        frame_skip: int = 4,
        terminal_on_life_loss: bool = True,
        clip_reward: bool = True,
        action_repeat_probability: float = 0.0,
        **options: Any,
    ) -> None:
        if not isinstance(task, str):
            raise ConfigError(f"task={task!r}: must be a game's name, as in SB3VecEnv('breakout', n_envs=8)")
        settings: dict[str, Any] = {
            "autoreset_mode": AutoresetMode.SAME_STEP,
            "noop_max": noop_max,
            "frameskip": frame_skip,
            "repeat_action_probability": action_repeat_probability,
            "use_fire_reset": False,
            "reward_clipping": False,
        }
        for name in options:
            if name in {*settings, "episodic_life", "life_loss_info", "batch_size"}:
                raise ConfigError(f"{name}={options[name]!r}: SB3VecEnv sets this option of VectorEnv")
        self.envs = VectorEnv(task_game(task), n_envs, **settings, **options)
        super().__init__(n_envs, self.envs.single_observation_space, self.envs.single_action_space)
        self._seed = seed
        self._ends_by_life = terminal_on_life_loss
        self._clips = clip_reward
        self._starts_by_fire = FIRE in self.envs.action_codes
        self._lives = np.zeros(n_envs, np.int32)
        self._points = np.zeros(n_envs)
        self._games: dict[int, dict[str, float | int]] = {}  # The statistics of games that ended in the current step
        self._start = time.perf_counter()

    def seed(self, seed: int | None = None) -> list[int | None]:
        self._seed = seed
        return [None if seed is None else seed + i for i in range(self.num_envs)]

    def reset(self) -> np.ndarray:
        obs, info = self.envs.reset(seed=self._seed)
        self._seed = None  # A seed determines only the next reset.
        self._points[:] = 0
        self._lives = info["lives"].copy()
        everyone = np.ones(self.num_envs, bool)
        obs, info = self._begin(obs, info, lost=~everyone, new=everyone)
        self.reset_infos = self._infos(info)
        return obs

    def step_async(self, actions: np.ndarray) -> None:
        self.envs.send(actions)

    def step_wait(self) -> tuple[np.ndarray, np.ndarray, np.ndarray, list[dict[str, Any]]]:
        obs, points, terminated, truncated, info = self.envs.recv()
        self._games = {}
        over = terminated | truncated
        lost = self._count(points, over, info)
        done = over | lost
        infos = self._infos(info["final_info"] if over.any() else info)
        if not done.any():
            return obs, self._reward(points), done, infos
        for i in np.flatnonzero(done):
            infos[i]["terminal_observation"] = (info["final_obs"] if over[i] else obs)[i].copy()
            infos[i]["TimeLimit.truncated"] = bool(truncated[i] and not terminated[i])
        obs, _ = self._begin(obs, info, lost, done)
        for k, game in self._games.items():
            infos[k]["episode"] = game
        return obs, self._reward(points), done, infos

    def get_images(self) -> list[np.ndarray]:
        """SB3's render() and VecVideoRecorder call `get_images`. Rendering needs the option render_mode="rgb_array"."""
        return list(self.envs.render() or ())

    def close(self) -> None:
        self.envs.close()

    def get_attr(self, attr_name: str, indices: Any = None) -> list[Any]:
        return [getattr(self.envs, attr_name) for _ in self._indices(indices)]

    def set_attr(self, attr_name: str, value: Any, indices: Any = None) -> None:
        raise NotImplementedError("the games of one VectorEnv share their settings")

    def env_method(self, method_name: str, *args: Any, indices: Any = None, **kwargs: Any) -> list[Any]:
        raise NotImplementedError("the games of one VectorEnv are no Python objects")

    def env_is_wrapped(self, wrapper_class: type, indices: Any = None) -> list[bool]:
        """True for SB3's Monitor, because `infos` have Monitor's `episode`. SB3's evaluate_policy calls
        `env_is_wrapped`."""
        return [wrapper_class is Monitor for _ in self._indices(indices)]

    def _reward(self, points: np.ndarray) -> np.ndarray:
        return (np.sign(points) if self._clips else points).astype(np.float32)

    def _infos(self, info: GameNumbers) -> list[dict[str, Any]]:
        columns = (info[name].tolist() for name in ("lives", "frame_number", "episode_frame_number"))
        return [
            {"lives": lives, "frame_number": frame, "episode_frame_number": frames, "TimeLimit.truncated": False}
            for lives, frame, frames in zip(*columns, strict=True)
        ]

    def _count(self, points: np.ndarray, over: np.ndarray, info: VectorInfo) -> np.ndarray:
        """Add a step's points to the games' scores, and record ended games. Return which environments lost a life that
        ends the agent's episode, bool [n_envs]."""
        self._points += points
        lives = info["lives"]
        # A change to 0 lives is not counted, because Qbert reports 0 lives for a few frames before a game ends.
        lost: np.ndarray = (lives > 0) & (lives < self._lives) & ~over & self._ends_by_life
        self._lives = lives.copy()
        for i in np.flatnonzero(over):
            frames = int(info["final_info"]["episode_frame_number"][i])
            seconds = round(time.perf_counter() - self._start, 6)
            self._games[int(i)] = {"r": float(self._points[i]), "l": frames, "t": seconds}
            self._points[i] = 0
        return lost

    def _begin(self, obs: np.ndarray, info: Any, lost: np.ndarray, new: np.ndarray) -> tuple[np.ndarray, Any]:
        """Play the first steps (FIRE, no-ops) in the environments in which an episode begins (`new`). In the
        environments marked `lost`, the episode begins after a lost life. Return the observations and infos."""
        if lost.any():
            obs, info, _ = self._play(NOOP, lost)
        if self._starts_by_fire:
            for action in (FIRE, FIRE + 1):
                obs, info, lost = self._play(action, new)
                if lost.any():
                    obs, info, _ = self._play(NOOP, lost)
        return obs, info

    def _play(self, action: int, which: np.ndarray) -> tuple[np.ndarray, Any, np.ndarray]:
        """Play one agent step in the environments `which`, bool [n_envs]. Return observations and infos of all
        environments, and which environments lost a life."""
        ids = np.flatnonzero(which)
        obs, points, terminated, truncated, info = self.envs.step(np.full(len(ids), action), ids)
        return obs, info, self._count(points, terminated | truncated, info)

    def _indices(self, indices: Any) -> Sequence[int]:
        return list(self._get_indices(indices))
