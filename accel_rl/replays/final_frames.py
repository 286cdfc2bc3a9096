"""The last frame of each episode. The ring does not hold it: the row after an episode is the next episode's first."""

import torch
from torch import Tensor

from accel_rl.data.spec import EnvSpec

NONE = -1


class FinalFrames:
    """A pool of frames with numbered slots. It grows if there are more episodes than slots."""

    def __init__(self, spec: EnvSpec, slots: int, device: torch.device):
        dtype = getattr(torch, spec.frame_dtype)
        self.frames = torch.zeros(max(slots, 1), *spec.frame_shape, dtype=dtype, device=device)
        self._free = list(range(len(self.frames) - 1, -1, -1))

    def put(self, frames: Tensor) -> Tensor:
        """Store frames [n, ...]; returns their slots [n] int32."""
        while len(self._free) < len(frames):
            self._grow()
        slots = torch.tensor([self._free.pop() for _ in range(len(frames))], dtype=torch.int32)
        self.frames[slots.long().to(self.frames.device)] = frames.to(self.frames.device)
        return slots.to(self.frames.device)

    def drop(self, slots: Tensor) -> None:
        """Free these slots; entries NONE are ignored."""
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
