"""A replay for the learner of another library or a script, which is filled step by step."""

from typing import Any, Literal, get_args

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from accel_rl.data.rollout import Rollout
from accel_rl.data.spec import EnvSpec
from accel_rl.replays.config import ReplayConfig
from accel_rl.replays.ring import NStep, ReplayBatch
from accel_rl.text.errors import ConfigError

Autoreset = Literal["NextStep", "SameStep", "Disabled"]
"""Determines when a vector environment begins a new episode, by the names of gymnasium.vector.AutoresetMode."""
MOST_PENDING = 16
"""Maximum number of steps that `add` collects before they are appended to the ring together, which is faster."""


class ReplayBuffer:
    """The transitions of B environments, of which each frame is stored once (Stooke & Abbeel 2018, section 5.3).

        buffer = accel_rl.ReplayBuffer(envs.single_observation_space, 6, size=100_000, n_envs=8, stack=4)
        buffer.add(obs, action, reward, terminated, truncated)  # the observations before the step, and what followed
        batch = buffer.sample(32)                               # a ReplayBatch: obs_tm1, a_tm1, r_t, discount_t, obs_t

    If the number `stack` S of frames is above 1, the first axis of an observation is the axis of its S newest frames.
    Consecutive observations then share S - 1 frames, and frames from before an episode are zeros, as in
    `accel_rl.VectorEnv`, ale-py's AtariVectorEnv, and Gymnasium's FrameStackObservation with padding_type="zero".
    """

    def __init__(
        self,
        observation_space: Any,
        n_actions: int,
        size: int,
        n_envs: int = 1,
        *,
        stack: int = 1,
        autoreset: Any = "NextStep",
        n_step: int = 1,
        gamma: float = 0.99,
        reward_clip: float = 0.0,
        prioritized: bool = False,
        alpha: float = 0.5,
        beta: float = 0.4,
        device: str = "cpu",
        seed: int = 0,
    ):
        """`observation_space` is that of one environment, a Gymnasium Box of uint8, or of floats, which are stored as
        float32. `size` is the capacity in transitions of all environments. `autoreset` is the vector environment's
        metadata["autoreset_mode"]. A return is a sum of `n_step` rewards, each clipped to +- `reward_clip`. With
        `reward_clip` 0, rewards are not clipped. `alpha` and `beta` are the exponents of the priorities and the
        importance weights (Schaul et al. 2016). `device` stores the transitions and the batches. Raises ConfigError."""
        mode = str(getattr(autoreset, "value", autoreset))
        if mode not in get_args(Autoreset):
            raise ConfigError(f"autoreset={autoreset!r}: must be NextStep, SameStep or Disabled")
        for name, number in (("n_actions", n_actions), ("n_envs", n_envs), ("stack", stack), ("n_step", n_step)):
            if isinstance(number, bool) or not isinstance(number, int | np.integer) or number < 1:
                raise ConfigError(f"{name}={number!r}: must be a whole number above 0")
        for name, share in (("gamma", gamma), ("alpha", alpha), ("beta", beta)):
            if not 0 <= share <= 1:
                raise ConfigError(f"{name}={share!r}: must be between 0 and 1")
        if not reward_clip >= 0:
            raise ConfigError(f"reward_clip={reward_clip!r}: must be 0 or more")
        shape, dtype = getattr(observation_space, "shape", None), getattr(observation_space, "dtype", None)
        if not shape or dtype is None or (dtype != np.uint8 and dtype.kind != "f"):
            raise ConfigError(f"observation_space={observation_space!r}: must be a Box of uint8 or floats")
        if stack > 1 and shape[0] != stack:
            raise ConfigError(f"stack={stack}: the first axis of observations of shape {list(shape)} has {shape[0]}")
        self._shape, self._is_next_step = tuple(map(int, shape)), mode == "NextStep"
        frame = self._shape[1:] if stack > 1 else self._shape
        self._type = np.dtype("uint8" if dtype == np.uint8 else "float32")
        spec = EnvSpec("", frame, self._type.name, int(n_actions), stack)
        config = ReplayConfig(
            size=int(size), start=0, prioritized=prioritized, alpha=alpha, beta=beta, beta_final=beta, device=device
        )
        least = n_envs * (n_step + stack + 2)
        if size < least:
            raise ConfigError(
                f"size={size}: too small for {n_envs} environments, a stack of {stack} and {n_step}-step returns; at "
                f"least {least}"
            )
        self.replay = config.build(spec, n_envs, NStep(n_step, gamma, reward_clip), device, seed)
        self._spec, self._B = spec, n_envs
        C = min(MOST_PENDING, self.replay.ring.L - n_step - stack)
        # The arrays contain at most C steps that have not been appended to the ring; the frames of these steps begin at
        # row S - 1 of `_frames`.
        self._frames: NDArray[Any] = np.zeros((stack - 1 + C, n_envs, *frame), self._type)
        self._finals: NDArray[Any] = np.zeros((C, n_envs, *frame), self._type)
        self._action = np.zeros((C, n_envs), np.int64)
        self._reward = np.zeros((C, n_envs), np.float32)
        self._age = np.zeros((C, n_envs), np.uint8)
        self._terminated, self._truncated, self._valid = (np.zeros((C, n_envs), bool) for _ in range(3))
        self._pending = 0
        self._steps: NDArray[np.int64] = np.zeros(n_envs, np.int64)  # Steps since the episode's first observation
        self._over = np.zeros(n_envs, bool)  # Whether the environment's next step is only a reset
        self._last: Any = False  # Some pixels of the S - 1 newest frames of the last observations

    def add(self, obs: Any, action: Any, reward: Any, terminated: Any, truncated: Any, final_obs: Any = None) -> None:
        """Add one step of all environments: the observations [B, ...] before the step, and the actions, rewards,
        terminations and truncations [B]. With SameStep, `final_obs` is `info["final_obs"]`, which contains the last
        observations of ended episodes, and None for the other environments. With NextStep, the next `obs` is the last
        observation of an ended episode. Raises ValueError."""
        x = self._observations("obs", obs)
        action = self._numbers("action", action, "iu").astype(np.int64)
        if action.min() < 0 or action.max() >= self._spec.n_actions:
            raise ValueError(f"action: {action.tolist()} must be from 0 to {self._spec.n_actions - 1}")
        reward = self._numbers("reward", reward, "iufb").astype(np.float32)
        terminated, truncated = (
            self._numbers(name, value, "b") for name, value in (("terminated", terminated), ("truncated", truncated))
        )
        self._check_stacks(x)
        valid = ~self._over
        ended = (terminated | truncated) & valid
        final = self._final_observations(final_obs, ended)
        if self._pending == len(self._action):
            self._flush()
        t, S = self._pending, self._spec.stack
        newest = x[:, -1] if S > 1 else x
        self._frames[S - 1 + t] = newest
        if self._is_next_step and t:
            self._finals[t - 1] = newest
        for b, obs_b in final.items():
            self._finals[t, b] = obs_b[-1] if S > 1 else obs_b
        self._action[t], self._reward[t], self._valid[t] = action, reward, valid
        self._terminated[t], self._truncated[t] = terminated & valid, truncated & valid
        self._age[t] = np.minimum(self._steps, self._spec.oldest)
        if S > 1:
            self._last = x.reshape(self._B, S, -1)[:, 1:, ::11].copy()
        self._steps = np.where(self._over | (ended & (not self._is_next_step)), 0, self._steps + 1)
        self._over = ended & self._is_next_step
        self._pending += 1

    def sample(self, N: int) -> ReplayBatch:
        """Draw N transitions. Raises ValueError if the replay contains no transition."""
        self._flush()
        return self.replay.sample(N)

    def update(self, batch: ReplayBatch, error: Tensor) -> None:
        """Set the priorities of a batch to (|error| + 1e-6)^alpha, from its errors [N]. Raises ValueError for a replay
        without priorities."""
        if not self.replay.selection.has_priorities:
            raise ValueError("update: the replay has no priorities; give prioritized=True")
        self.replay.update(batch, torch.as_tensor(error))

    def __len__(self) -> int:
        """Number of transitions that can be drawn, without those of the newest `n_step` steps, which are not
        complete."""
        self._flush()
        return len(self.replay)

    def _observations(self, name: str, value: Any) -> NDArray[Any]:
        x = np.asarray(value)
        if x.shape != (self._B, *self._shape):
            raise ValueError(f"{name}: shape {list(x.shape)}, must be {[self._B, *self._shape]}")
        if x.dtype != self._type and not (self._type.kind == x.dtype.kind == "f"):
            raise ValueError(f"{name}: {x.dtype}, must be {self._type}")
        return x.astype(self._type, copy=False)

    def _numbers(self, name: str, value: Any, kinds: str) -> NDArray[Any]:
        x = np.asarray(value)
        if x.shape != (self._B,) or x.dtype.kind not in kinds:
            types = {"iu": "integers", "iufb": "numbers", "b": "bool"}
            raise ValueError(f"{name}: {x.dtype} of shape {list(x.shape)}, must be {types[kinds]} [{self._B}]")
        return x

    def _check_stacks(self, x: NDArray[Any]) -> None:
        """Raise ValueError if an observation's older frames differ from those of the previous observation, in a sample
        of the pixels."""
        S, begins = self._spec.stack, self._steps == 0
        if S == 1:
            return
        pixels = x.reshape(self._B, S, -1)[:, :, ::11]
        if pixels[begins, :-1].any():
            raise ValueError("obs: the frames from before an episode must be zeros (padding_type='zero' in Gymnasium)")
        is_same = (pixels[:, :-1] == self._last).all((1, 2)) | begins
        if not is_same.all():
            raise ValueError(
                f"obs: the older frames of environment {int(is_same.argmin())} are not those of its last observation; "
                "an episode began without an end, or `autoreset` is not that of the environments"
            )

    def _final_observations(self, final_obs: Any, ended: NDArray[np.bool_]) -> dict[int, NDArray[Any]]:
        """{environment: last observation of its ended episode}."""
        if self._is_next_step or not ended.any():
            if final_obs is not None and self._is_next_step:
                raise ValueError("final_obs: with autoreset='NextStep' it is the next obs; give autoreset='SameStep'")
            return {}
        if final_obs is None:
            raise ValueError(f"final_obs: missing, the episode of environment {int(ended.argmax())} ended")
        result = {}
        for b in map(int, np.flatnonzero(ended)):
            x = np.asarray(final_obs[b])
            if x.shape != self._shape:
                raise ValueError(f"final_obs[{b}]: shape {list(x.shape)}, must be {list(self._shape)}")
            result[b] = x
        return result

    def _flush(self) -> None:
        """Append the collected steps to the ring. With NextStep, a step that ended an episode is appended only after
        the next step."""
        T, S = self._pending, self._spec.stack
        if self._is_next_step and self._over.any():
            T -= 1
        if T <= 0:
            return
        names = ("_finals", "_action", "_reward", "_terminated", "_truncated", "_valid", "_age")
        finals, action, reward, terminated, truncated, valid, age = (
            torch.from_numpy(getattr(self, name)[:T]) for name in names
        )
        self.replay.append(
            Rollout(
                torch.from_numpy(self._frames[: S - 1 + T]), finals, age, action, reward, terminated, truncated,
                terminated | truncated, valid, S,
            )
        )  # fmt: skip
        if self._pending > T:
            self._frames[S - 1] = self._frames[S - 1 + T]
            for name in names:
                getattr(self, name)[0] = getattr(self, name)[T]
        self._pending -= T
