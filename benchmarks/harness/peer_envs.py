"""A common interface for the Atari vector environments of other packages.

All environments have frame skip 4, a stack of 4 gray frames of 104x80 (resized by area), up to 30 no-ops, no sticky
actions, raw rewards, and episodes that are whole games.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

Act = Callable[[np.ndarray], np.ndarray]
"""A function that maps stacks [N, 4, H, W] uint8 to actions [N]."""


@dataclass(frozen=True)
class Shape:
    game: str
    envs: int  # Number of environments of packages that step a batch by one object.
    process_envs: int  # Number of environments for packages that start one process per environment.
    cores: int
    height: int = 104
    width: int = 80


class Peer:
    """A vector environment of another package. `make` builds the environment, `begin` resets the environment, and
    `step` plays a batch of actions and stores the observations in `self.obs`."""

    name = ""
    package = ""  # Name of the peer's Python module
    install = ""  # Name of the peer's package for pip
    # Whether one object steps all environments. Otherwise each environment has a process.
    batched = True

    def __init__(self, shape: Shape):
        self.shape = shape
        self.n = shape.envs if self.batched else shape.process_envs
        self.batch = self.n
        self.obs: np.ndarray = np.zeros(0)
        self.env: Any = self.make()
        self.begin()
        rng = np.random.default_rng(0)
        self._random = rng.integers(self.n_actions(), size=(256, self.batch))

    def make(self) -> Any:
        raise NotImplementedError

    def begin(self) -> None:
        self.obs = self.env.reset()[0]

    def n_actions(self) -> int:
        return int(self.env.single_action_space.n)

    def step(self, action: np.ndarray) -> None:
        self.obs = self.env.step(action)[0]

    def stacks(self) -> np.ndarray:
        """Return the current observations [batch, 4, H, W] uint8."""
        return self.obs

    def measure(self, act: Act | None, seconds: float) -> float:
        """Measure env steps/s. If `act` is None, actions are random numbers that were drawn before the measurement."""
        n, begin = 0, time.perf_counter()
        while (took := time.perf_counter() - begin) < seconds:
            self.step(act(self.stacks()) if act else self._random[n // self.batch % 256])
            n += self.batch
        return n / took

    def close(self) -> None:
        if self.batched:
            self.env.close()
            return
        # Processes are killed, because other packages' `close` would wait for ever for a process that does not reply.
        vector = self.env.unwrapped
        for process in vector.processes:
            process.kill()
            process.join()
        vector.closed = True


def camel(game: str) -> str:
    return "".join(word.capitalize() for word in game.split("_"))


class AleVector(Peer):
    """ale-py's vector environment, which steps all environments together."""

    name, package, install = "AtariVectorEnv", "ale_py.vector_env", "ale-py"
    halves = 1

    def make(self) -> Any:
        from ale_py.vector_env import AtariVectorEnv

        s = self.shape
        self.batch = s.envs // self.halves
        return AtariVectorEnv(
            s.game, s.envs, batch_size=self.batch, num_threads=s.cores, img_height=s.height, img_width=s.width,
            stack_num=4, frameskip=4, noop_max=30, reward_clipping=False, use_fire_reset=False,
        )  # fmt: skip


class AleVectorAsync(AleVector):
    """AtariVectorEnv by `send` and `recv`. `recv` returns the half of the environments that is ready first, while the
    other half steps."""

    name, halves = "AtariVectorEnv send/recv", 2

    def step(self, action: np.ndarray) -> None:
        self.env.send(action)  # Actions for the environments that `recv` returned last.
        self.obs = self.env.recv()[0]


class EnvPool(Peer):
    """EnvPool in synchronous mode, which steps all environments together."""

    name, package, install = "EnvPool", "envpool", "envpool"
    halves = 1

    def make(self) -> Any:
        import envpool

        s = self.shape
        self.batch = s.envs // self.halves
        return envpool.make(
            camel(s.game) + "-v5", env_type="gymnasium", num_envs=s.envs, batch_size=self.batch, num_threads=s.cores,
            img_height=s.height, img_width=s.width, stack_num=4, frame_skip=4, noop_max=30, reward_clip=False,
            episodic_life=False, use_fire_reset=False, repeat_action_probability=0.0, seed=0,
        )  # fmt: skip

    def n_actions(self) -> int:
        return int(self.env.action_space.n)

    def step(self, action: np.ndarray) -> None:
        self.obs = self.env.step(action.astype(np.int32))[0]


class EnvPoolAsync(EnvPool):
    """EnvPool in asynchronous mode, which returns the half of the environments that is ready first."""

    name, halves = "EnvPool async", 2

    def begin(self) -> None:
        self.env.async_reset()
        self.obs, *_, self._info = self.env.recv()

    def step(self, action: np.ndarray) -> None:
        self.env.send(action.astype(np.int32), self._info["env_id"])
        self.obs, *_, self._info = self.env.recv()


@dataclass(frozen=True)
class MakeOne:
    """A picklable function that builds one environment with preprocessed frames [H, W, 1], for packages that build each
    environment by a function."""

    shape: Shape
    stacked: bool

    def __call__(self) -> Any:
        import ale_py
        import cv2
        import gymnasium
        from gymnasium.wrappers import AtariPreprocessing, FrameStackObservation

        cv2.setNumThreads(1)
        ale_py.ALEInterface.setLoggerMode(ale_py.LoggerMode.Error)
        gymnasium.register_envs(ale_py)
        env = gymnasium.make(f"ALE/{camel(self.shape.game)}-v5", frameskip=1, repeat_action_probability=0.0)
        size = (self.shape.width, self.shape.height)
        env = AtariPreprocessing(env, noop_max=30, frame_skip=4, screen_size=size, grayscale_newaxis=True)
        return FrameStackObservation(env, 4) if self.stacked else env


class GymnasiumAsync(Peer):
    """Gymnasium's AsyncVectorEnv, with a process for each environment, which writes to shared memory."""

    name, package, install, batched = "Gymnasium AsyncVectorEnv", "gymnasium", "gymnasium", False

    def make(self) -> Any:
        from gymnasium.vector import AsyncVectorEnv

        return AsyncVectorEnv([MakeOne(self.shape, stacked=True)] * self.n, context="spawn")

    def stacks(self) -> np.ndarray:
        return self.obs[..., 0]


class SB3Subproc(Peer):
    """SB3's SubprocVecEnv, with a process for each environment, which communicates through a pipe."""

    name, package, install, batched = "SB3 SubprocVecEnv", "stable_baselines3", "stable-baselines3", False

    def make(self) -> Any:
        from stable_baselines3.common.vec_env import SubprocVecEnv, VecFrameStack

        return VecFrameStack(SubprocVecEnv([MakeOne(self.shape, stacked=False)] * self.n, start_method="spawn"), 4)

    def begin(self) -> None:
        self.obs = self.env.reset()

    def n_actions(self) -> int:
        return int(self.env.action_space.n)

    def stacks(self) -> np.ndarray:
        return np.moveaxis(self.obs, -1, 1)


PEERS: tuple[type[Peer], ...] = (AleVector, AleVectorAsync, EnvPool, EnvPoolAsync, GymnasiumAsync, SB3Subproc)
