"""This module implements EnvPool's interface with this project's emulator, so that a script for EnvPool only has to
change its import.

    from accel_rl.compat import envpool  # instead of: import envpool
    envs = envpool.make("Pong-v5", env_type="gymnasium", num_envs=8, episodic_life=True, reward_clip=True)
    obs, info = envs.reset()
    obs, reward, terminated, truncated, info = envs.step(actions)

    envs.async_reset()                                          # with batch_size below num_envs
    obs, reward, terminated, truncated, info = envs.recv()
    envs.send(actions, info["env_id"])

Names, defaults and the dict `info` are those of EnvPool 1.2. Unlike EnvPool, `episodic_life` plays no no-ops after a
lost life, and the random numbers of episodes are those of `VectorEnv`.
"""

from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np

from accel_rl.compat.episode_records import LostLives
from accel_rl.emulator.games import camel_case, task_game, vector_games
from accel_rl.emulator.vector_env import VectorEnv
from accel_rl.text.errors import ConfigError, nearest

OPTIONS: dict[str, Any] = {
    "num_envs": 1,
    "batch_size": None,
    "num_threads": None,
    "thread_affinity_offset": -1,
    "seed": 42,
    "max_episode_steps": 27_000,
    "img_height": 84,
    "img_width": 84,
    "stack_num": 4,
    "gray_scale": True,
    "frame_skip": 4,
    "noop_max": 30,
    "episodic_life": False,
    "reward_clip": False,
    "repeat_action_probability": 0.0,
    "use_fire_reset": True,
    "full_action_space": False,
    "mode": None,
    "difficulty": None,
    "use_inter_area_resize": True,
    "zero_discount_on_life_loss": False,
}
# Some options of EnvPool have only one supported value.
ONLY = {"use_inter_area_resize": True, "zero_discount_on_life_loss": False}
ENV_TYPES = ("gymnasium", "gym")


class Spec(NamedTuple):
    """The options are the attributes of `config`, such as config.max_episode_steps."""

    config: SimpleNamespace
    observation_space: Any
    action_space: Any


class EnvPool:
    """`EnvPool` is a batch of games with the methods of EnvPool. Observations are [batch_size, stack_num, 84, 84]
    uint8, and rewards [batch_size] float32.

    The dict `info` contains env_id, lives, reward (not clipped), terminated (true at game over, not at a lost life) and
    elapsed_step (agent steps since the game began). Raises ConfigError for an option that the emulator does not have.
    """

    def __init__(self, task_id: str, env_type: str, **options: Any) -> None:
        for name in options:
            if name not in OPTIONS:
                raise ConfigError(f"{name}: must be one of {', '.join(OPTIONS)}" + nearest(name, list(OPTIONS)))
        for name, only in ONLY.items():
            if options.get(name, only) != only:
                raise ConfigError(f"{name}={options[name]}: must be {only}; for others use EnvPool itself")
        if env_type not in ENV_TYPES:
            raise ConfigError(
                f"env_type={env_type!r}: must be one of {', '.join(ENV_TYPES)}" + nearest(env_type, ENV_TYPES)
            )
        self.config = {**OPTIONS, **options}
        c, n = self.config, self.config["num_envs"]
        self._old_gym, spaces = _gym(env_type)
        self._envs = VectorEnv(
            task_game(task_id),
            n,
            batch_size=c["batch_size"] or 0,
            num_threads=c["num_threads"] or 0,
            thread_affinity_offset=c["thread_affinity_offset"],
            max_num_frames_per_episode=c["max_episode_steps"] * c["frame_skip"],
            repeat_action_probability=c["repeat_action_probability"],
            full_action_space=c["full_action_space"],
            img_height=c["img_height"],
            img_width=c["img_width"],
            grayscale=c["gray_scale"],
            stack_num=c["stack_num"],
            frameskip=c["frame_skip"],
            noop_max=c["noop_max"],
            reward_clipping=False,
            use_fire_reset=c["use_fire_reset"],
            mode=c["mode"],
            difficulty=c["difficulty"],
        )
        self.is_async = self._envs.batch_size < n
        self.all_env_ids = np.arange(n, dtype=np.int32)
        self.observation_space = spaces.Box(0, 255, self._envs.single_observation_space.shape, np.uint8)
        self.action_space = spaces.Discrete(len(self._envs.action_codes))
        self.spec = Spec(SimpleNamespace(**c), self.observation_space, self.action_space)
        self.num_envs = n
        self._lives = LostLives(self._envs, count=c["episodic_life"], press_fire=c["use_fire_reset"])
        self._over = np.ones(n, bool)  # The games that begin at their next step
        self._elapsed = np.zeros(n, np.int32)
        self._seed: int | None = int(c["seed"])
        self._ids = self._sent = self.all_env_ids
        self._first: tuple[np.ndarray, dict[str, np.ndarray]] | None = None

    def __len__(self) -> int:
        return int(self._envs.num_envs)

    def reset(self, env_id: np.ndarray | None = None) -> Any:
        """Begin all games, or the games `env_id` [n]. Return the observations and info of these games. With the API of
        Gym before 0.26, only return the observations."""
        if env_id is None:
            self.async_reset()
            obs, _, _, _, info = self._recv()
        else:
            obs, info = self._reset_some(np.asarray(env_id))
        return obs if self._old_gym else (obs, info)

    def async_reset(self) -> None:
        """Begin all games. recv() returns their first observations in batches."""
        self._over[:], self._sent = True, self.all_env_ids
        self._first = self._envs.reset(seed=self._seed)
        self._seed = None  # A seed determines only the next reset.

    def step(self, action: np.ndarray, env_id: np.ndarray | None = None) -> tuple[Any, ...]:
        """Send actions to the environments, and wait for the results of one batch."""
        self.send(action, env_id)
        return self.recv()

    def send(self, action: np.ndarray, env_id: np.ndarray | None = None) -> None:
        """Send actions [n] for the n environments `env_id`, whose results were received, by default for the
        environments of the last recv(). Several batches may be received before the first is answered. If a batch has
        all environments, the next recv() returns the environments `env_id`."""
        ids = self._ids if env_id is None else np.asarray(env_id, np.int32)
        action = np.array(action)
        if action.shape != ids.shape:
            raise ValueError(f"{action.shape} actions for {ids.shape} environments: must be as many")
        self._envs.send(self._lives.actions(action, ids), None if env_id is None else ids)
        self._sent = ids

    def recv(self) -> tuple[Any, ...]:
        """Return observations, rewards, terminated, truncated and info. With the API of Gym before 0.26, `done`
        replaces terminated and truncated."""
        obs, reward, terminated, truncated, info = self._recv()
        if not self._old_gym:
            return obs, reward, terminated, truncated, info
        return obs, reward, terminated | truncated, {**info, "TimeLimit.truncated": truncated}

    def close(self) -> None:
        """End the threads."""
        self._envs.close()

    def _reset_some(self, ids: np.ndarray) -> tuple[np.ndarray, dict[str, np.ndarray]]:
        if ids.ndim != 1 or ids.dtype.kind not in "iu" or not set(ids.tolist()) <= set(range(self.num_envs)):
            raise ValueError(f"env_id={ids!r}: must be whole numbers from 0 to {self.num_envs - 1}")
        mask = np.isin(self.all_env_ids, ids)
        obs, info = self._envs.reset(options={"reset_mask": mask})
        lives, zeros = info["lives"][ids], np.zeros(len(ids), np.int32)
        self._lives.step(lives, ids, ended=np.ones(len(ids), bool))
        self._over[ids], self._elapsed[ids] = False, 0
        info = {"env_id": self.all_env_ids[ids], "lives": lives, "reward": zeros.astype(np.float32)}
        return obs[ids], info | {"elapsed_step": zeros, "terminated": zeros.copy()}

    def _recv(self) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, dict[str, np.ndarray]]:
        if self._first is not None:
            (obs, info), self._first = self._first, None
            points = np.zeros(len(obs), np.int32)
            over = np.zeros(len(obs), bool)
            late = np.zeros(len(obs), bool)
        else:
            obs, points, over, late, info = self._envs.recv()
        if not self.is_async and len(self._sent) < self.num_envs:
            obs, points, over, late = (x[self._sent] for x in (obs, points, over, late))
            info = {name: info[name][self._sent] for name in ("env_id", "lives")}
        ids, lives = info["env_id"], info["lives"]
        begins = self._over[ids]
        lost = self._lives.step(lives, ids, ended=begins | over | late)
        self._elapsed[ids] = np.where(begins, 0, self._elapsed[ids] + 1)
        self._ids, self._over[ids] = ids, over | late
        reward = (np.sign(points) if self.config["reward_clip"] else points).astype(np.float32)
        elapsed = self._elapsed[ids]
        info = {"env_id": ids, "lives": lives, "reward": points.astype(np.float32), "elapsed_step": elapsed}
        info["terminated"] = over.astype(np.int32)
        return obs, reward, over | lost, late, info


def make(task_id: str, env_type: str, **options: Any) -> EnvPool:
    """Make the games of a task, such as "Pong-v5" or "MsPacman-v5". The `options` are listed in OPTIONS."""
    return EnvPool(task_id, env_type, **options)


def make_gym(task_id: str, **options: Any) -> EnvPool:
    """Make an EnvPool of games with the interface of the installed version of Gym."""
    return make(task_id, "gym", **options)


def make_gymnasium(task_id: str, **options: Any) -> EnvPool:
    """Make an EnvPool of games with the interface of Gymnasium."""
    return make(task_id, "gymnasium", **options)


def make_spec(task_id: str, **options: Any) -> Spec:
    envs = make_gymnasium(task_id, **{**options, "num_envs": 1, "batch_size": None})
    envs.close()
    return envs.spec._replace(config=SimpleNamespace(**{**OPTIONS, **options}))


def list_all_envs() -> list[str]:
    """Return the ids of the tasks, such as "MsPacman-v5"."""
    return [f"{camel_case(game)}-v5" for game in vector_games()]


def _gym(env_type: str) -> tuple[bool, Any]:
    """Return whether `env_type` selects the API of Gym before 0.26, and the module that defines the spaces."""
    if env_type == "gymnasium":
        from gymnasium import spaces

        return False, spaces
    try:
        import gym
    except ImportError:
        raise ConfigError("env_type='gym' needs Gym: pip install gym, or use env_type='gymnasium'") from None
    return int(gym.__version__.split(".")[1]) < 26, gym.spaces  # Gym's last release was 0.26.
