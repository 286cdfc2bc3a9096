"""`SingleEnv` is a single Atari game as a Gymnasium environment."""

from typing import Any, NotRequired, TypedDict

import gymnasium
import numpy as np
from gymnasium.vector import AutoresetMode

from accel_rl.emulator.ale_view import AleView
from accel_rl.emulator.vector_env import Observations, VectorEnv, VectorInfo


class GameInfo(TypedDict):
    """The `info` of a SingleEnv. After a reset with a seed, `seeds` are the seeds of np_random and of the emulator,
    which both equal the given seed. (ale-py's AtariEnv derives two different seeds.)"""

    lives: int
    frame_number: int
    episode_frame_number: int
    seeds: NotRequired[tuple[int, int]]


class SingleEnv(gymnasium.Env[np.ndarray, Any]):
    """One environment with the arguments, rewards and episodes of `VectorEnv`. Observations are [stack_num, 84, 84]
    uint8, or those of `obs_type`. A copy by copy.copy or pickle continues exactly as the original."""

    metadata = VectorEnv.metadata

    def __init__(self, game: str, render_mode: str | None = None, **options: Any):
        """`options` are arguments of `VectorEnv`. Raises ConfigError."""
        self._envs = VectorEnv(
            game, 1, autoreset_mode=AutoresetMode.DISABLED, num_threads=1, render_mode=render_mode, **options
        )
        self.observation_space = self._envs.single_observation_space
        self.action_space = self._envs.single_action_space
        self.render_mode = render_mode
        self._frameskip = self._envs.options.frameskip  # Gymnasium's AtariPreprocessing reads `_frameskip`.

    @property
    def ale(self) -> AleView:
        """An object with the methods of ale-py's ALEInterface that read the game's state, such as `ale.lives()`, which
        wrappers of other libraries call."""
        return self._envs.ale(0)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Observations, GameInfo]:  # type: ignore[override]  # A TypedDict is no dict.
        """Begin an episode. A seed determines all later random numbers."""
        super().reset(seed=seed)
        obs, info = self._envs.reset(seed=seed)
        return obs[0], _of_one(info) if seed is None else {**_of_one(info), "seeds": (seed, seed)}

    def step(self, action: int | np.ndarray) -> tuple[Observations, float, bool, bool, GameInfo]:  # type: ignore[override]
        obs, reward, terminated, truncated, info = self._envs.step(np.array([action]))
        return obs[0], float(reward[0]), bool(terminated[0]), bool(truncated[0]), _of_one(info)

    def render(self) -> np.ndarray | None:
        """Return the screen, [210, 160, 3] uint8. Without a `render_mode`, `render` returns None with a warning."""
        screens = self._envs.render()
        return None if screens is None else screens[0]

    def get_action_meanings(self) -> list[str]:
        """Return the names of the actions, such as NOOP and UPFIRE."""
        return self._envs.get_action_meanings()

    def clone_state(self, include_rng: bool = False) -> bytes:
        """Return the state of the game and of the stack of observations, for `restore_state`. If `include_rng` is true,
        the state contains the random number generators."""
        return bytes([include_rng]) + self._envs.clone_state()[0]

    def restore_state(self, state: bytes) -> None:
        """Continue the game from a state that `clone_state` returned. Raises ValueError if the state is of another
        game, or has another kind of observations."""
        self._envs.restore_state([state[1:]], include_rng=state[:1] == b"\x01")

    def close(self) -> None:
        self._envs.close()


def _of_one(info: VectorInfo) -> GameInfo:
    frame, episode_frame = int(info["frame_number"][0]), int(info["episode_frame_number"][0])
    return {"lives": int(info["lives"][0]), "frame_number": frame, "episode_frame_number": episode_frame}
