"""`DeviceVectorEnv` is a `VectorEnv` that emulates the games on a GPU. A step copies no data to the host.

    envs = DeviceVectorEnv("breakout", num_envs=4096)
    obs, info = envs.reset(seed=1)          # obs [4096, 4, 84, 84] uint8 on the GPU
    obs, reward, terminated, truncated, info = envs.step(actions)    # actions [4096] int64 on the GPU

All results are torch tensors on the device, which other libraries can read through DLPack. The method `step` does not
synchronize with the GPU.
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
from accel_rl.emulator.games import FIRE, benchmark_games
from accel_rl.emulator.vector_options import VectorOptions, keywords_of
from accel_rl.text.errors import ConfigError

FRAMES = {(84, 84): "84x84", (104, 80): "104x80"}


@dataclass(frozen=True, kw_only=True)
class DeviceOptions(VectorOptions):
    """`device` is "cuda" or "cuda:N", or "cpu" for the kernels compiled for CPUs, which are slow. Sticky actions never
    repeat the button presses of a reset. If `translate` is true, the first reset waits until the game's own kernel is
    compiled (block_kernel.py). Raises ConfigError."""

    autoreset_mode: AutoresetMode | str = AutoresetMode.SAME_STEP
    device: str = "cuda"

    FIXED: ClassVar[Sequence[str]] = (
        *("batch_size", "num_threads", "thread_affinity_offset", "copy", "rom"),
        *("continuous", "grayscale", "maxpool", "obs_type", "render_mode"),
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
        """Return `device` as a torch.device with an index. Raises ConfigError if the device cannot emulate games."""
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
    """With AutoresetMode.SAME_STEP, `_final_obs` [num_envs] bool is true for environments whose episode ended in this
    step. `final_obs` [num_envs, stack_num, height, width] uint8 has the last observations of the ended episodes. Rows
    of `final_obs` for environments whose episode continues are undefined. `reset` returns neither key."""

    final_obs: Tensor
    _final_obs: Tensor


class DeviceVectorEnv(EmulatedVectorEnv):
    """A batch of environments of one game on a GPU, with the rules of `VectorEnv` and the arguments of `DeviceOptions`.
    `autoreset_mode` decides when the next episode begins: in the step that ends an episode (SAME_STEP, the default), in
    the step after it (NEXT_STEP), or only when `reset` is called (DISABLED). Until its next episode begins, an
    environment repeats its last observation.

    Observations [num_envs, stack_num, img_height, img_width] uint8 are 84x84 or 104x80 pixels. At the start of an
    episode, the missing earlier frames of the stack are zeros. `reward` is [num_envs] float32, and `terminated` and
    `truncated` are [num_envs] bool.

    All random numbers of an episode are computed from the environment's seed and the episode's number (Philox), and are
    the same on CPUs and GPUs. Raises ConfigError.
    """

    @keywords_of(DeviceOptions)
    def __init__(self, options: DeviceOptions) -> None:
        super().__init__(options)
        self.device = options.torch_device()
        self._game = load_game(options, self.action_codes, self.device)
        self._mode = AutoresetMode(options.autoreset_mode)
        self._envs: DeviceEnvs | None = None
        self._ended = torch.zeros(self.num_envs, dtype=torch.bool, device=self.device)  # waiting for a reset
        self._out = DeviceStep.empty(self.num_envs, self._game)
        self._obs = torch.zeros(self.num_envs, *options.observation_shape, dtype=torch.uint8, device=self.device)
        # The age of each stacked frame relative to the newest, in steps
        self._lag = torch.arange(options.stack_num - 1, -1, -1, device=self.device)

    def reset(  # type: ignore[override]  # A TypedDict is no dict.
        self, *, seed: int | list[int | None] | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Tensor, DeviceInfo]:
        """Begin an episode in all environments, or where `options["reset_mask"]` (bool, of shape [num_envs]) is true.
        The i-th environment that begins an episode gets the seed `seed` + i. If a mask but no seed is given, the
        environments keep their seeds."""
        mask = (options or {}).get("reset_mask")
        begun = None if mask is None else torch.as_tensor(mask, device=self.device)
        if begun is not None and (begun.shape != (self.num_envs,) or begun.dtype != torch.bool):
            raise ValueError(f"reset_mask={mask!r}: must be an array of bool [{self.num_envs}]")
        if begun is not None and self._envs is None and not begun.all():
            raise error.ResetNeeded("reset_mask before the first reset of all environments")
        first = int.from_bytes(np.random.default_rng().bytes(4), "little") // 2 if seed is None else seed
        if isinstance(first, bool) or not isinstance(first, int | np.integer) or not 0 <= first < 2**31:
            raise ValueError(f"seed={seed!r}: must be a whole number from 0 to 2^31 - 1")
        if begun is not None and self._envs is not None:
            self._begin_next(begun, None if seed is None else (int(first) + begun.cumsum(0) - 1).int())
            return self._obs, {}
        seeds = [int(first) + i for i in range(self.num_envs)]
        if self._envs is None:
            self._envs = DeviceEnvs(self._game, seeds)
        else:
            self._envs.reseed(seeds)
        self._envs.begin(self._out)
        self._ended = torch.zeros_like(self._ended)
        self._obs = self._first_observations()
        return self._obs, {}

    def _begin_next(self, begun: Tensor, seeds: Tensor | None = None) -> None:
        assert self._envs is not None
        self._envs.begin_next(self._out, begun, seeds)
        self._obs = torch.where(_rows(begun), self._first_observations(), self._obs)
        self._ended = self._ended & ~begun

    def _first_observations(self) -> Tensor:
        result = torch.zeros_like(self._obs)
        result[:, -1] = self._out.frame
        return result

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
        # Invalid actions are clamped, because an error would need a wait for the GPU.
        action = action.long().clamp(0, len(self.action_codes) - 1)
        out, same_step, waits = self._out, self._mode == AutoresetMode.SAME_STEP, self._ended
        self._envs.step(torch.where(waits, -1, action), out, begins=same_step)
        older = self._obs[:, 1:]
        obs = torch.cat([older, out.frame[:, None]], 1) * _rows(self._lag <= out.age[:, None])
        final = torch.cat([older, out.final_frame[:, None]], 1)
        reward = out.reward.clamp(-1, 1) if self.options.reward_clipping else out.reward.clone()
        terminated, truncated = out.terminated.clone(), out.truncated.clone()
        info: DeviceInfo = {}
        last = torch.where(_rows(out.ended), final, obs)
        if same_step:  # If life_loss_info is true, final_obs also has rows for lost lives.
            info = {"_final_obs": terminated | truncated, "final_obs": last}
        else:
            obs = torch.where(_rows(waits), self._obs, last)
            self._ended = waits | out.ended
        self._obs = obs
        if self._mode == AutoresetMode.NEXT_STEP:
            self._begin_next(waits)
        return self._obs, reward, terminated, truncated, info


def _rows(mask: Tensor) -> Tensor:
    """Append axes of size 1 to a mask [num_envs, ...], so that the mask broadcasts over observations."""
    return mask[(..., *[None] * (4 - mask.dim()))]


def load_game(o: DeviceOptions, codes: list[int], device: torch.device) -> DeviceGame:
    frame = FRAMES[o.img_height, o.img_width]
    max_steps = -(-o.max_num_frames_per_episode // o.frameskip)
    rules = (o.frameskip, max_steps, o.life_loss_info, o.repeat_action_probability)
    translated = begin_translation(o.game, device, o.translate)
    core = make_env_core(o.game, frame, palette.GRAY, *rules, o.mode, o.difficulty)
    table, fire = Counter(o.noop_max, o.frameskip, cached=False).starts, o.use_fire_reset and FIRE in codes
    starts = start_table(core, table, (o.img_height, o.img_width), fire)
    step_rules = AgentStepRules(*rules, frame, oldest=max(o.stack_num - 1, 1), one_life=o.episodic_life)
    return DeviceGame(o.game, step_rules, codes, palette.GRAY, starts, device, translated)
