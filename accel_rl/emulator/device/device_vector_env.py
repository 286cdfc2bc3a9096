"""`DeviceVectorEnv` is `VectorEnv` with the games emulated on a GPU, where a step copies no data to the host.

    envs = DeviceVectorEnv("breakout", num_envs=4096)
    obs, info = envs.reset(seed=1)          # obs [4096, 4, 84, 84] uint8 on the GPU
    obs, reward, terminated, truncated, info = envs.step(actions)    # actions [4096] int64 on the GPU

All results are torch tensors on the device, which other libraries can read through DLPack. A step does not synchronize
with the GPU.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, TypedDict

import numpy as np
import torch
from gymnasium import error
from gymnasium.vector import AutoresetMode
from torch import Tensor

from accel_rl.emulator import palette
from accel_rl.emulator.counter import MOST_NOOPS, Counter
from accel_rl.emulator.device import cuda
from accel_rl.emulator.device.envs import DeviceEnvs, DeviceStep
from accel_rl.emulator.device.game import AgentStepRules, DeviceGame, begin_translation, start_table
from accel_rl.emulator.emulated_vector_env import EmulatedVectorEnv
from accel_rl.emulator.env_core import make_env_core
from accel_rl.emulator.games import benchmark_games
from accel_rl.emulator.vector_options import VectorOptions, keywords_of
from accel_rl.text.errors import ConfigError

FRAMES = {(84, 84): "84x84", (104, 80): "104x80"}


@dataclass(frozen=True, kw_only=True)
class DeviceOptions(VectorOptions):
    """`device` is "cuda" or "cuda:N", or "cpu" for a slow build of the GPU emulator for CPUs. Raises ConfigError."""

    autoreset_mode: AutoresetMode | str = AutoresetMode.SAME_STEP
    use_fire_reset: bool = False
    device: str = "cuda"

    FIXED: ClassVar[Sequence[str]] = (
        *("batch_size", "num_threads", "thread_affinity_offset", "copy", "rom"),
        *("continuous", "grayscale", "maxpool", "obs_type", "render_mode"),
        *("autoreset_mode", "episodic_life", "use_fire_reset"),
    )
    OTHERS: ClassVar[str] = " on a device; for others use VectorEnv"
    LIMITS: ClassVar[dict[str, tuple[int, int]]] = VectorOptions.LIMITS | dict(
        num_envs=(1, 2**20), stack_num=(1, 32), frameskip=(1, 60), noop_max=(0, MOST_NOOPS)
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if len(self.games) > 1:
            raise ConfigError(f"game={self.game!r}: must be a single game{self.OTHERS}")
        size = (self.img_height, self.img_width)
        if size not in FRAMES:
            raise ConfigError(f"img_height={size[0]}, img_width={size[1]}: must be 84 and 84, or 104 and 80")
        self.torch_device()

    def supported_games(self) -> Sequence[str]:
        return benchmark_games()

    def torch_device(self) -> torch.device:
        """Return the device with its index. Raises ConfigError for a device that cannot emulate games."""
        try:
            result = torch.device(self.device)
        except RuntimeError:
            raise ConfigError(f"device={self.device!r}: must be cuda, cuda:N or cpu") from None
        if result.type != "cuda":
            return result
        if (result.index or 0) >= (gpus := torch.cuda.device_count()):
            raise ConfigError(f"device={self.device!r}: this machine has {gpus} GPUs; cpu is allowed")
        result = torch.device("cuda", torch.cuda.current_device() if result.index is None else result.index)
        cuda.check(str(result))
        return result


class DeviceInfo(TypedDict, total=False):
    """`final_obs` [num_envs, stack_num, height, width] uint8 has the last observations of episodes that ended, in the
    rows in which `_final_obs` [num_envs] bool is true. Other rows are undefined. After a reset, both are missing."""

    final_obs: Tensor
    _final_obs: Tensor


class DeviceVectorEnv(EmulatedVectorEnv):
    """A batch of games on a GPU. In the step that ends an episode, the environment begins the next episode. The
    arguments are those of `DeviceOptions`.

    Observations [num_envs, stack_num, img_height, img_width] uint8 are 84x84 or 104x80 pixels. Stacked frames from
    before the episode's first frame are zeros. `reward` is [num_envs] float32, and `terminated` and `truncated` are
    [num_envs] bool.

    All random numbers of an episode are computed from the environment's seed and the episode's number (Philox), and are
    the same on CPUs and GPUs. Raises ConfigError.
    """

    @keywords_of(DeviceOptions)
    def __init__(self, options: DeviceOptions) -> None:
        super().__init__(options)
        self.device = options.torch_device()
        self._game = _load(options, self.action_codes, self.device)
        self._envs: DeviceEnvs | None = None
        self._out = DeviceStep.empty(self.num_envs, self._game)
        self._obs = torch.zeros(self.num_envs, *options.observation_shape, dtype=torch.uint8, device=self.device)
        # The age of each stacked frame relative to the newest, in steps
        self._lag = torch.arange(options.stack_num - 1, -1, -1, device=self.device)

    def reset(  # type: ignore[override]  # A TypedDict is no dict.
        self, *, seed: int | list[int | None] | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Tensor, DeviceInfo]:
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

    def step(  # type: ignore[override]
        self, actions: Tensor | np.ndarray | Sequence[int]
    ) -> tuple[Tensor, Tensor, Tensor, Tensor, DeviceInfo]:
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
        action = action.long().clamp(0, len(self.action_codes) - 1)
        out = self._out
        self._envs.step(action, out)
        older = self._obs[:, 1:]
        info: DeviceInfo = {
            "_final_obs": out.ended.clone(),
            "final_obs": torch.cat([older, out.final_frame[:, None]], 1),
        }
        obs = torch.cat([older, out.frame[:, None]], 1)
        self._obs = obs * (self._lag <= out.age[:, None])[:, :, None, None]
        reward = out.reward.clamp(-1, 1) if self.options.reward_clipping else out.reward.clone()
        return self._obs, reward, out.terminated.clone(), out.truncated.clone(), info


def _load(o: DeviceOptions, codes: list[int], device: torch.device) -> DeviceGame:
    frame = FRAMES[o.img_height, o.img_width]
    max_steps = -(-o.max_num_frames_per_episode // o.frameskip)
    rules = (o.frameskip, max_steps, o.life_loss_info, o.repeat_action_probability)
    translated = begin_translation(o.game, device, o.translate)
    core = make_env_core(o.game, frame, palette.GRAY, *rules, o.mode, o.difficulty)
    starts = start_table(core, Counter(o.noop_max, o.frameskip, cached=False).starts, (o.img_height, o.img_width))
    step_rules = AgentStepRules(*rules, frame, oldest=max(o.stack_num - 1, 1))
    return DeviceGame(o.game, step_rules, codes, palette.GRAY, starts, device, translated)
