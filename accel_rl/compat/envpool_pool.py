"""A pool of games with EnvPool's calls. Subclasses define the form of the results (Gymnasium's tuples or dm_env's
TimeSteps)."""

import warnings
from typing import Any, NamedTuple

import numpy as np

from accel_rl.compat.envpool_spec import Spec
from accel_rl.emulator.vector_env import VectorEnv, VectorInfo
from accel_rl.emulator.vector_options import NO_LIMIT, RAM_BYTES


class Games(VectorEnv):
    """The games of a pool. In `info`, frame_number is 1 if a game is over, and episode_frame_number is the number of
    agent steps of the game (envpool_env.h)."""

    _envpool = True

    def ram(self, ids: np.ndarray) -> np.ndarray:
        """The RAM [len(ids), 128] uint8 of the environments `ids`, which must not be playing."""
        out = np.empty((len(ids), RAM_BYTES), np.uint8)
        self._core.ram(ids, out)
        return out


class Results(NamedTuple):
    """The results of a step of one batch of environments. `begins` marks environments that were reset instead of
    playing their action."""

    obs: np.ndarray
    reward: np.ndarray
    discount: np.ndarray
    terminated: np.ndarray
    truncated: np.ndarray
    begins: np.ndarray
    info: dict[str, Any]


class Pool:
    """The methods that EnvPool's environments have with every `env_type`."""

    spec: Any
    num_envs: int

    def __init__(self, spec: Spec, render_mode: str | None = None, render_env_id: int = 0) -> None:
        c, n = spec.config, spec.config.num_envs
        self.spec, self.config, self.num_envs = spec, c._asdict(), n
        self.render_mode, self._render_env_id = render_mode, render_env_id
        self._envs = Games(
            spec.game,
            n,
            batch_size=c.batch_size,
            num_threads=c.num_threads,
            thread_affinity_offset=c.thread_affinity_offset,
            max_num_frames_per_episode=min(c.max_episode_steps * c.frame_skip, NO_LIMIT),
            repeat_action_probability=c.repeat_action_probability,
            full_action_space=c.full_action_space,
            stack_num=c.stack_num,
            frameskip=c.frame_skip,
            noop_max=c.noop_max,
            episodic_life=c.episodic_life,
            reward_clipping=False,
            use_fire_reset=c.use_fire_reset,
            mode=None if c.mode < 0 else c.mode,
            difficulty=None if c.difficulty < 0 else c.difficulty,
            render_mode=render_mode,
        )
        self.is_async = c.batch_size < n
        self.all_env_ids = np.arange(n, dtype=np.int32)
        self._ended, self._lives = np.zeros(n, bool), np.zeros(n, np.int32)
        self._seeds: np.ndarray | None = spec.seeds
        self._ids = self._sent = self.all_env_ids
        self._first: tuple[np.ndarray, VectorInfo] | None = None

    def __len__(self) -> int:
        return self.num_envs

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in self.config.items())})"

    __str__ = __repr__  # Gymnasium's `__str__` would read `spec.id`.

    def reset(self, env_id: np.ndarray | None = None) -> Any:
        """Begin all games, or the games `env_id` [n]."""
        if env_id is None:
            self.async_reset()
        else:
            self._reset_some(np.asarray(env_id))
        return self.recv(reset=True)

    def async_reset(self) -> None:
        """Begin all games without waiting. recv() then returns the first observations in batches."""
        self._ended[:], self._sent = True, self.all_env_ids
        self._first = self._envs.reset(seed=self._seeds)
        self._seeds = None  # The seeds determine only the first reset.

    def step(self, action: Any, env_id: np.ndarray | None = None) -> Any:
        self.send(action, env_id)
        return self.recv()

    def send(self, action: Any, env_id: np.ndarray | None = None) -> None:
        """Send actions [n] for the n environments `env_id`, whose results were received. By default, `env_id` lists all
        environments, or, if a batch has fewer, those of the last recv(). Several batches may be received before the
        actions for the first batch are sent. If the batch size is the number of environments, the next recv() returns
        the results of the environments `env_id`. `action` may be a dict of "action" and "env_id"."""
        if isinstance(action, dict):
            action, env_id = action["action"], action.get("env_id", env_id)
        default = self._ids if self.is_async else self.all_env_ids
        ids = default if env_id is None else np.asarray(env_id, np.int32)
        action = np.asarray(action)
        if action.shape != ids.shape:
            raise ValueError(f"{action.shape} actions for {ids.shape} environments: must be as many")
        self._envs.send(action, None if env_id is None else ids)
        self._sent = ids

    def recv(self, reset: bool = False, return_info: bool = True) -> Any:
        """Receive the results of a batch. With `reset`, receive the first observations after a reset."""
        if self._first is not None:
            (obs, numbers), self._first = self._first, None
            points = np.zeros(len(obs), np.int32)
            terminated = truncated = np.zeros(len(obs), bool)
        else:
            obs, points, terminated, truncated, numbers = self._envs.recv()
        ids, lives, over, steps = (numbers[k] for k in ("env_id", "lives", "frame_number", "episode_frame_number"))
        if self._sent is not self.all_env_ids and not self.is_async:
            chosen = self._sent
            obs, points, terminated, truncated = obs[chosen], points[chosen], terminated[chosen], truncated[chosen]
            ids, lives, over, steps = ids[chosen], lives[chosen], over[chosen], steps[chosen]
        reward = points.astype(np.float32)
        begins, done = self._ended[ids], terminated | truncated
        ends = done | (lives != self._lives[ids]) if self.config["zero_discount_on_life_loss"] else done
        self._ids, self._ended[ids], self._lives[ids] = ids, done, lives
        info = {"env_id": ids, "players": {"env_id": ids.copy()}, "lives": lives, "reward": reward, "terminated": over}
        info |= {"ram": self._envs.ram(ids), "elapsed_step": steps}
        clipped = np.sign(reward) if self.config["reward_clip"] else reward.copy()
        discount = (begins | ~ends).astype(np.float32)
        return self._returned(Results(obs, clipped, discount, terminated, truncated.copy(), begins, info), reset)

    def seed(self, seed: Any = None) -> None:
        """Print a warning that `seed` has no effect, as EnvPool does."""
        warnings.warn("seed() has no effect: envpool.make(..., seed=seed) sets the seed", stacklevel=2)

    def render(self, env_ids: Any = None, camera_id: int | None = None) -> Any:
        """Screens [n, 210, 160, 3] uint8 of the environments `env_ids`, by default of the environment
        `render_env_id`."""
        if self.render_mode is None:
            raise RuntimeError("render() without a render mode: make the environments with render_mode='rgb_array'")
        chosen = np.atleast_1d(self._render_env_id if env_ids is None else env_ids)
        return np.stack([self._envs.ale(i).getScreenRGB() for i in chosen.tolist()])

    def close(self, **kwargs: Any) -> None:
        self._envs.close()

    def _returned(self, results: Results, is_reset: bool) -> Any:
        raise NotImplementedError

    def _reset_some(self, ids: np.ndarray) -> None:
        if ids.ndim != 1 or ids.dtype.kind not in "iu" or not set(ids.tolist()) <= set(range(self.num_envs)):
            raise ValueError(f"env_id={ids!r}: must be whole numbers from 0 to {self.num_envs - 1}")
        self._first = self._envs.reset(seed=self._seeds, options={"reset_mask": np.isin(self.all_env_ids, ids)})
        self._seeds, self._ended[ids], self._sent = None, True, ids
