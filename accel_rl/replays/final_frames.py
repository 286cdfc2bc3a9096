"""The last frame of each episode. The ring does not hold it: the row after an episode is the next episode's first."""

import torch
from torch import Tensor

from accel_rl.data.spec import EnvSpec
from accel_rl.data.staging import Staging

NONE = -1


class FinalFrames:
    """A pool of frames with numbered slots. It grows if there are more episodes than slots. The host allocates them."""

    def __init__(self, spec: EnvSpec, slots: int, staging: Staging):
        """staging: for the device that holds the frames."""
        dtype = getattr(torch, spec.frame_dtype)
        self.frames = torch.zeros(max(slots, 1), *spec.frame_shape, dtype=dtype, device=staging.device)
        self._staging = staging
        self._free = list(range(len(self.frames) - 1, -1, -1))

    def put(self, frames: Tensor) -> Tensor:
        """Store frames [n, ...], from any device; returns their slots [n] int32 on the host."""
        while len(self._free) < len(frames):
            self._grow()
        slots = torch.tensor([self._free.pop() for _ in range(len(frames))], dtype=torch.int64)
        frames = self._staging.put(frames) if frames.device.type == "cpu" else frames.to(self.frames.device)
        self.frames[self._staging.put(slots)] = frames
        return slots.to(torch.int32)

    def drop(self, slots: Tensor) -> None:
        """Free these slots [n], on the host; entries NONE are ignored."""
        self._free += slots[slots >= 0].tolist()

    def clear(self) -> None:
        self._free = list(range(len(self.frames) - 1, -1, -1))

    def _grow(self) -> None:
        n = len(self.frames)
        self.frames = torch.cat([self.frames, torch.zeros_like(self.frames)])
        self._free += range(2 * n - 1, n - 1, -1)

    @property
    def nbytes(self) -> int:
        return self.frames.nbytes
