"""A user's vector environment whose arrays are tensors on the learner's device, for example a physics simulator on the
GPU."""

from typing import Any

import gymnasium
import torch
from gymnasium.vector import AutoresetMode
from torch import Tensor

from accel_rl.emulator.device.envs import DeviceStep
from accel_rl.envs.gymnasium import Observations
from accel_rl.envs.make import vectorized
from accel_rl.envs.pictures import MixedLayout, PictureLayout
from accel_rl.envs.vectorized import VectorizedEnv
from accel_rl.samplers.engine import EngineSetup
from accel_rl.text.errors import ConfigError

DTYPES = {"uint8": torch.uint8, "float32": torch.float32}


class DeviceVectorized:
    """Steps a `gymnasium.vector.VectorEnv` on the device without copying anything to the host. The results are those of
    `VectorizedEnv`.

    Actions, observations, rewards and flags are tensors on the device. In the autoreset mode SAME_STEP, `info` must
    contain `final_obs` [n, ...] as a tensor at every step. In the mode DISABLED, the host waits for the device at each
    step, and `reset_mask` is a tensor. The observation space must be a Box. Raises ConfigError.
    """

    def __init__(self, env: VectorizedEnv, device: torch.device):
        self._host, self._env, self.n, self._device = env, env.vector_env, env.n, device
        self._layout = layout_on_device(env.id, env.observations)
        spec = env.spec
        self._shape, self._dtype, self._oldest = spec.frame_shape, DTYPES[spec.frame_dtype], spec.oldest
        space: Any = self._env.single_action_space
        self._start = torch.as_tensor(getattr(space, "start", 0), device=device)
        self._is_box = isinstance(space, gymnasium.spaces.Box)
        if self._is_box:
            self._low, self._high = (torch.as_tensor(x, device=device) for x in (space.low, space.high))
        self._action_shape = (self.n, *(space.shape or ()))
        self._age = torch.zeros(self.n, dtype=torch.uint8, device=device)
        self._over = torch.zeros(self.n, dtype=torch.bool, device=device)  # environments that the next step resets
        self._newest = torch.zeros(self.n, *self._shape, dtype=self._dtype, device=device)
        self._is_lost = False

    def begin(self) -> Tensor:
        with self._host.named("the reset"):
            obs, _ = self._env.reset(seed=self._host.next_seed())
            frame = self._frames(obs)
        self._age.zero_()
        self._over.zero_()
        self._newest.copy_(frame)
        return frame

    def step(self, action: Tensor, out: DeviceStep) -> None:
        if self._is_lost:
            self._cut(out)
            return
        first = action.reshape(self.n, -1)[:, 0]
        skipped = first.isnan() if action.is_floating_point() else first < 0
        played = torch.where(_like(skipped, action), 0, action).reshape(self._action_shape)
        played = played.clamp(self._low, self._high) if self._is_box else played + self._start
        with self._host.named("a step"):
            obs, reward, terminated, truncated, info = self._env.step(played)
            frame = self._frames(obs)
            ends = [self._on_device(x, torch.bool) for x in (terminated, truncated)]
            valid = ~(skipped | self._over)
            over = (ends[0] | ends[1]) & ~self._over
            out.reward.copy_(torch.where(valid, self._on_device(reward, torch.float32), 0.0))
            out.valid.copy_(valid)
            out.terminated.copy_(ends[0] & valid)
            out.truncated.copy_(ends[1] & ~ends[0] & valid)
            out.ended.copy_(over & valid)
            age = torch.where(valid, (self._age + 1).clamp(max=self._oldest), 0).to(torch.uint8)
            frame = self._following(frame, info, over, out)
        self._over = over if self._host.mode is AutoresetMode.NEXT_STEP else torch.zeros_like(over)
        self._age = torch.where(out.ended & ~self._over, 0, age).to(torch.uint8)
        out.age.copy_(self._age)
        out.frame.copy_(frame)
        self._newest.copy_(frame)

    def _following(self, frame: Tensor, info: dict[str, Any], over: Tensor, out: DeviceStep) -> Tensor:
        """Write the last frames of the episodes that have ended, and return the frames with which the environments
        continue."""
        mask = _like(over, frame)
        if self._host.mode is AutoresetMode.SAME_STEP:
            if "final_obs" not in info:
                raise ValueError("info has no final_obs, which mode SameStep needs at every step on the device")
            out.final_frame.copy_(torch.where(mask, self._frames(info["final_obs"]), out.final_frame))
            return frame
        out.final_frame.copy_(torch.where(mask, frame, out.final_frame))
        if self._host.mode is AutoresetMode.DISABLED and bool(over.any()):
            obs, _ = self._env.reset(options={"reset_mask": over})
            return torch.where(mask, self._frames(obs), frame)
        return frame

    def _cut(self, out: DeviceStep) -> None:
        """Truncate all episodes, because their states were not saved, and begin new ones."""
        valid = ~self._over
        out.final_frame.copy_(self._newest)
        out.reward.zero_()
        out.terminated.zero_()
        for flag in (out.truncated, out.ended, out.valid):
            flag.copy_(valid)
        out.frame.copy_(self.begin())
        out.age.zero_()
        self._is_lost = False

    def reseed(self, seeds: list[int]) -> None:
        self._host.reseed(seeds[0])

    def get_state(self) -> list[bytes]:
        self._host.age, self._host.over = self._age.cpu().numpy(), self._over.cpu().numpy()
        self._host.newest = self._newest.cpu().numpy()
        return self._host.get_state()

    def set_state(self, states: list[bytes]) -> None:
        host = self._host
        host.set_state(states)
        for mine, saved in ((self._age, host.age), (self._over, host.over), (self._newest, host.newest)):
            mine.copy_(torch.as_tensor(saved))
        self._is_lost = host.is_lost

    def _frames(self, obs: Any) -> Tensor:
        """[n, *frame_shape]"""
        frames = self._on_device(obs)
        if self._layout is not None and self._layout.channel_axis == 2:
            frames = frames.reshape(self.n, *self._layout.shape).movedim(3, 1)
        if frames.dtype is torch.bool:
            frames = frames.to(torch.uint8) * (255 if self._layout else 1)
        return frames.reshape(self.n, *self._shape).to(self._dtype)

    def _on_device(self, x: Any, dtype: torch.dtype | None = None) -> Tensor:
        """Copy an array to the device, unless it is already a tensor there."""
        return torch.as_tensor(x, dtype=dtype, device=self._device)


def made_on_device(setup: EngineSetup, device: torch.device, seeds: list[int], first_index: int) -> DeviceVectorized:
    env = vectorized(setup.env, seeds, setup.training, first_index, str(device))
    assert env is not None, "--sampler.engine device was not checked"
    return DeviceVectorized(env, device)


def layout_on_device(id: str, observations: Observations) -> PictureLayout | None:
    """Return the layout of observations that are pictures, or None for vectors. Raises ConfigError if the space is no
    Box."""
    layout = observations.picture
    if isinstance(layout, MixedLayout) or not isinstance(observations.space, gymnasium.spaces.Box):
        kind = type(observations.space).__name__
        raise ConfigError(f"id={id!r} observes a {kind}: --sampler.engine device needs a Box; use in-process")
    return layout


def _like(mask: Tensor, x: Tensor) -> Tensor:
    """Reshape a mask [n], so that it broadcasts to x [n, ...]."""
    return mask.reshape(-1, *[1] * (x.dim() - 1))
