"""EnvPool's interface with this project's emulator, so that a script for EnvPool only has to change its import.

    from accel_rl.compat import envpool  # instead of: import envpool
    envs = envpool.make("Pong-v5", env_type="gymnasium", num_envs=8, episodic_life=True, reward_clip=True)
    obs, info = envs.reset()
    obs, reward, terminated, truncated, info = envs.step(actions)

    envs.async_reset()                                          # with batch_size below num_envs
    obs, reward, terminated, truncated, info = envs.recv()
    envs.send(actions, info["env_id"])

Options, episodes, random numbers and results are those of EnvPool 1.2.5: with the same seed and the same actions, all
returned arrays are equal. The differences from EnvPool are:

- Options that the emulator does not have raise a ConfigError, as do bad values.
- With batch_size below num_envs, send() without `env_id` sends actions to the environments of the last recv().
- A second send() to an environment that is playing, and recv() without send(), raise an error of Gymnasium.
- `env_type="gym"` has the API of the installed Gym, if it is installed, as EnvPool had before version 1.2.
- There is no `xla()`, no window (`render_mode="human"`), and no option for the size of rendered screens.
- `list_all_envs` has the games that this project emulates.
- `config.base_path` is the folder of ale-py's ROMs.
- An environment with the seed -1 has the same sticky actions in each run.
"""

import warnings
from typing import Any

import gymnasium
import numpy as np
from gymnasium.vector import AutoresetMode
from gymnasium.vector import VectorEnv as GymnasiumVectorEnv

from accel_rl.compat.envpool_pool import Pool, Results
from accel_rl.compat.envpool_spec import Spec, imported_dm_env, task_ids
from accel_rl.text.errors import ConfigError, nearest

ENV_TYPES = ("dm", "gym", "gymnasium")


class EnvPool(Pool, GymnasiumVectorEnv[np.ndarray, np.ndarray, np.ndarray], gymnasium.Env[np.ndarray, np.ndarray]):  # type: ignore[misc]
    """A batch of games as a vector environment of Gymnasium. Observations are [batch_size, stack_num, 84, 84] uint8,
    and rewards [batch_size] float32. As in EnvPool, the spaces are those of one environment.

    The dict `info` contains env_id, players, lives, reward (not clipped), terminated (1 at game over, 0 at a lost
    life), ram [batch_size, 128], and elapsed_step (agent steps since the game began)."""

    metadata = {"render_modes": ["rgb_array"], "autoreset_mode": AutoresetMode.NEXT_STEP}  # noqa: RUF012  # as Gymnasium's
    is_vector_env = True

    def __init__(self, spec: Spec, is_gym: bool = False, **rendering: Any) -> None:
        super().__init__(spec, **rendering)
        self.observation_space, self.action_space = spec.observation_space, spec.action_space
        self._old_gym = False
        if is_gym:
            self._use_gym()
        self.single_observation_space, self.single_action_space = self.observation_space, self.action_space

    def reset(
        self, env_id: np.ndarray | None = None, *, seed: Any = None, options: dict[str, Any] | None = None
    ) -> Any:
        """Begin all games, or the games `env_id` [n], or those of options["reset_mask"], bool [num_envs]. Return the
        observations and info of the games that begin. With the API of Gym before 0.26, only return the observations."""
        if seed is not None:
            warnings.warn("reset(seed=...) is ignored: envpool.make(..., seed=seed) sets the seed", stacklevel=2)
        if unknown := set(options or {}) - {"reset_mask"}:
            raise ValueError(f"options {sorted(unknown)}: only reset_mask is known")
        mask = (options or {}).get("reset_mask")
        if mask is not None:
            mask = np.asarray(mask, bool)
            if env_id is not None or mask.shape != (self.num_envs,) or not mask.any():
                raise ValueError(f"reset_mask of {mask.shape}: must be [{self.num_envs}], not empty, without env_id")
            env_id = np.flatnonzero(mask)
        return super().reset(env_id)

    def close(self, **kwargs: Any) -> None:
        super().close()
        self.closed = True

    def _returned(self, results: Results, is_reset: bool) -> Any:
        obs, reward, _, terminated, truncated, _, info = results
        if self._old_gym:
            return (
                obs if is_reset else (obs, reward, terminated | truncated, {**info, "TimeLimit.truncated": truncated})
            )
        return (obs, info) if is_reset else (obs, reward, terminated, truncated, info)

    def _use_gym(self) -> None:
        """Use the spaces and the API of the installed version of Gym. If Gym is not installed, change nothing."""
        try:
            import gym
        except ImportError:
            return
        self._old_gym = int(gym.__version__.split(".")[1]) < 26  # Gym 0.26, Gym's last release, has Gymnasium's API.
        self.observation_space = gym.spaces.Box(0, 255, self.observation_space.shape, np.uint8)
        self.action_space = gym.spaces.Discrete(self.spec.actions)


def make(task_id: str, env_type: str, **options: Any) -> Any:
    """`task_id` is an id of EnvPool, such as "Pong-v5" or "MsPacman-v5". The `options` are those of envpool_spec.py,
    `render_mode` ("rgb_array") and `render_env_id`. Raises ConfigError."""
    if env_type not in ENV_TYPES:
        raise ConfigError(
            f"env_type={env_type!r}: must be one of {', '.join(ENV_TYPES)}" + nearest(env_type, ENV_TYPES)
        )
    rendering = {name: options.pop(name) for name in ("render_mode", "render_env_id") if name in options}
    spec = Spec(task_id, options)
    if env_type != "dm":
        return EnvPool(spec, is_gym=env_type == "gym", **rendering)
    imported_dm_env()
    from accel_rl.compat.envpool_dm import DMEnvPool

    return DMEnvPool(spec, **rendering)


def make_gym(task_id: str, **options: Any) -> EnvPool:
    """Games with the interface of the installed version of Gym, or of Gymnasium if Gym is not installed."""
    return make(task_id, "gym", **options)


def make_gymnasium(task_id: str, **options: Any) -> EnvPool:
    return make(task_id, "gymnasium", **options)


def make_dm(task_id: str, **options: Any) -> Any:
    """Games with the interface of dm_env. The package dm-env must be installed."""
    return make(task_id, "dm", **options)


def make_spec(task_id: str, **options: Any) -> Spec:
    return Spec(task_id, options)


def list_all_envs() -> list[str]:
    """EnvPool's ids of the emulated games, such as "MsPacman-v5"."""
    return list(task_ids())
