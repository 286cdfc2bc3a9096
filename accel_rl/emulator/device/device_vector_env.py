"""With device="cuda", a `VectorEnv` emulates the games on a GPU, and a step copies no data to the host.

    envs = VectorEnv("breakout", num_envs=4096, device="cuda")
    obs, info = envs.reset(seed=1)          # obs [4096, 4, 84, 84] uint8 on the GPU
    obs, reward, terminated, truncated, info = envs.step(actions)    # actions [4096] int64 on the GPU

All results are torch tensors on the device, which other libraries can read through DLPack. A step does not synchronize
with the GPU.
"""

from typing import Any

import numpy as np
import torch
from gymnasium import error
from gymnasium.spaces import Box, Discrete
from gymnasium.vector import AutoresetMode
from gymnasium.vector import VectorEnv as GymnasiumVectorEnv
from gymnasium.vector.utils import batch_space
from torch import Tensor

from accel_rl.emulator import palette
from accel_rl.emulator.counter import Counter, check_noops
from accel_rl.emulator.device import cuda
from accel_rl.emulator.device.envs import DeviceEnvs, DeviceStep
from accel_rl.emulator.device.game import AgentStepRules, DeviceGame, start_table
from accel_rl.emulator.env_core import make_env_core
from accel_rl.emulator.games import action_codes, benchmark_games, check_game, check_switches
from accel_rl.text.errors import ConfigError, nearest

FRAMES = {(84, 84): "84x84", (104, 80): "104x80"}
_FIXED = {
    "autoreset_mode": "SameStep",
    "use_fire_reset": False,
    "episodic_life": False,
    "grayscale": True,
    "maxpool": True,
    "continuous": False,
}


class DeviceVectorEnv(GymnasiumVectorEnv):
    """`DeviceVectorEnv` is a `VectorEnv` on a GPU. In the step that ends an episode, the environment begins the next
    episode.

    Observations [num_envs, stack_num, img_height, img_width] uint8 are 84x84 or 104x80 pixels. Stacked frames from
    before the episode's first frame are zeros. `reward` is [num_envs] float32, and `terminated` and `truncated` are
    [num_envs] bool. `info["final_obs"]` contains the last observations of ended episodes, in the rows in which
    `info["_final_obs"]` is true. All other rows of `info["final_obs"]` are undefined. If `life_loss_info` is true, a
    lost life sets `terminated`, though the game continues. `noop_max` is the maximum number of no-op frames after a
    reset. `mode` and `difficulty` are the game's switches.

    All random numbers of an episode are computed from the environment's seed and the episode's number (Philox), and are
    the same on CPUs and GPUs. Raises ConfigError.
    """

    def __init__(
        self,
        game: str,
        num_envs: int,
        *,
        device: str = "cuda",
        max_num_frames_per_episode: int = 108000,
        repeat_action_probability: float = 0.0,
        full_action_space: bool = False,
        img_height: int = 84,
        img_width: int = 84,
        stack_num: int = 4,
        frameskip: int = 4,
        noop_max: int = 30,
        life_loss_info: bool = False,
        reward_clipping: bool = True,
        mode: int | None = None,
        difficulty: int | None = None,
        **fixed: Any,
    ) -> None:
        _check_fixed(fixed)
        check_game(game, benchmark_games())
        check_switches(game, mode, difficulty)
        if (img_height, img_width) not in FRAMES:
            raise ConfigError(f"img_height={img_height}, img_width={img_width}: must be 84 and 84, or 104 and 80")
        for name, number, most in (
            ("num_envs", num_envs, 2**20),
            ("max_num_frames_per_episode", max_num_frames_per_episode, 2**31 - 1),
            ("stack_num", stack_num, 32),
            ("frameskip", frameskip, 60),
        ):
            if isinstance(number, bool) or not isinstance(number, int | np.integer) or not 1 <= number <= most:
                raise ConfigError(f"{name}={number!r}: must be a whole number from 1 to {most}")
        if not 0 <= repeat_action_probability <= 1:
            raise ConfigError(f"repeat_action_probability={repeat_action_probability}: must be from 0 to 1")
        check_noops(noop_max)
        self.device = _checked_device(device)
        self.num_envs = num_envs
        self.metadata = {**self.metadata, "autoreset_mode": AutoresetMode.SAME_STEP}
        codes, frame = action_codes(game, full_action_space), FRAMES[img_height, img_width]
        max_steps = -(-max_num_frames_per_episode // frameskip)
        core = make_env_core(
            game,
            frame,
            palette.GRAY,
            frameskip,
            max_steps,
            life_loss_info,
            repeat_action_probability,
            mode,
            difficulty,
        )
        starts = start_table(core, Counter(noop_max, frameskip, cached=False).starts, (img_height, img_width))
        rules = AgentStepRules(
            frameskip, max_steps, life_loss_info, repeat_action_probability, frame, max(stack_num - 1, 1)
        )
        self._game = DeviceGame(game, rules, codes, palette.GRAY, starts, self.device)
        self.single_observation_space = Box(0, 255, (stack_num, img_height, img_width), np.uint8)
        self.single_action_space = Discrete(len(codes))
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)
        self._actions, self._clips = len(codes), reward_clipping
        self._envs: DeviceEnvs | None = None
        self._out = DeviceStep.empty(num_envs, self._game)
        self._obs = torch.zeros(num_envs, stack_num, img_height, img_width, dtype=torch.uint8, device=self.device)
        # The age of each stacked frame relative to the newest, in steps
        self._lag = torch.arange(stack_num - 1, -1, -1, device=self.device)

    def reset(
        self, *, seed: int | list[int | None] | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Tensor, dict[str, Tensor]]:
        """Begin an episode in all environments. The i-th environment has the seed `seed` + i."""
        first = int.from_bytes(np.random.default_rng().bytes(4), "little") // 2 if seed is None else seed
        if isinstance(first, bool) or not isinstance(first, int | np.integer) or not 0 <= first < 2**31:
            raise ValueError(f"seed={seed!r}: must be a whole number from 0 to 2^31 - 1")
        seeds = [int(first) + i for i in range(self.num_envs)]
        self._envs = DeviceEnvs(self._game, seeds)
        self._envs.begin(self._out)
        self._obs = torch.zeros_like(self._obs)
        self._obs[:, -1] = self._out.frame
        return self._obs, {}

    def step(self, actions: Any) -> tuple[Tensor, Tensor, Tensor, Tensor, dict[str, Any]]:
        """Play an agent step in all environments. `actions` [num_envs] are integers, preferably in a tensor on the
        device."""
        if self._envs is None:
            raise error.ResetNeeded("step() before reset()")
        action = torch.as_tensor(actions, device=self.device)
        if action.shape != (self.num_envs,) or action.is_floating_point() or action.dtype == torch.bool:
            raise ValueError(
                f"actions of shape {tuple(action.shape)} and {action.dtype}: must be whole numbers [{self.num_envs}]"
            )
        # Actions are clamped and not checked, because a check would synchronize with the GPU.
        action = action.long().clamp(0, self._actions - 1)
        out = self._out
        self._envs.step(action, out)
        older = self._obs[:, 1:]
        info = {"_final_obs": out.ended.clone(), "final_obs": torch.cat([older, out.final_frame[:, None]], 1)}
        obs = torch.cat([older, out.frame[:, None]], 1)
        self._obs = obs * (self._lag <= out.age[:, None])[:, :, None, None]
        reward = out.reward.clamp(-1, 1) if self._clips else out.reward.clone()
        return self._obs, reward, out.terminated.clone(), out.truncated.clone(), info


def _checked_device(device: str) -> torch.device:
    try:
        result = torch.device(device)
    except RuntimeError:
        raise ConfigError(f"device={device!r}: must be cuda, cuda:N or cpu") from None
    if result.type == "cuda" and (result.index or 0) >= torch.cuda.device_count():
        raise ConfigError(f"device={device!r}: this machine has {torch.cuda.device_count()} GPUs; cpu is allowed")
    if result.type == "cuda" and result.index is None:
        result = torch.device("cuda", torch.cuda.current_device())
    if result.type == "cuda":
        cuda.check(str(result))
    return result


def _check_fixed(given: dict[str, Any]) -> None:
    """Raise ConfigError if an argument of `VectorEnv` that supports only one value on a device has another value."""
    for name, value in given.items():
        if name not in _FIXED:
            raise ConfigError(f"{name}={value!r}: not an argument with device" + nearest(name, _FIXED))
        value = value.value if isinstance(value, AutoresetMode) else value
        if value != _FIXED[name]:
            raise ConfigError(f"{name}={value!r}: must be {_FIXED[name]!r} with device")
