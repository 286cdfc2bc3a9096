"""A checkpoint of a replay consists of segments of rows, of which each checkpoint writes only the new segments."""

from typing import Any

import torch
from torch import Tensor

from accel_rl.data.tensor_file import Segment
from accel_rl.kernels.ring_arrays import SAMPLEABLE
from accel_rl.replays.ring import NONE, FrameRing

SEGMENT_BYTES = 32 * 2**20  # Every checkpoint writes the rows after the last complete segment again.
_CELLS = ("frames", "age", "action", "reward", "flags")
_KNOWN_TO_HOST = ("age", "flags")  # The ring copies the arrays of `HostCells` to a GPU.


class History:
    """`History` divides a replay's rows into segments of a fixed number of rows. A complete segment is saved once, and
    the rows after the last complete segment are saved with each checkpoint."""

    def __init__(self, ring: FrameRing):
        self.ring = ring
        self.rows = max(1, SEGMENT_BYTES // (ring.B * (ring.frames[0].nbytes + 8)))
        # `_whole` lists (low, high, complete segment of the rows [low, high)).
        self._whole: list[tuple[int, int, Segment]] = []

    def state_dict(self) -> dict[str, Any]:
        ring = self.ring
        self._whole = [s for s in self._whole if s[1] > ring.oldest]
        low = max(self._whole[-1][1] if self._whole else 0, ring.oldest)
        segments = list(self._whole)
        while low < ring.cursor:
            boundary = (low // self.rows + 1) * self.rows
            high = min(boundary, ring.cursor)
            segments.append((low, high, self._segment(low, high)))
            if high == boundary:
                self._whole.append(segments[-1])
            low = high
        return {
            "cursor": ring.cursor,
            "rows": [[low, high] for low, high, _ in segments],
            "segments": [segment for _, _, segment in segments],
        }

    def _segment(self, low: int, high: int) -> Segment:
        return Segment(f"rows-{low:012d}-{high:012d}", lambda: self._read(low, high))

    def _read(self, low: int, high: int) -> dict[str, Tensor]:
        ring = self.ring
        assert low >= ring.oldest, "a segment is saved with the checkpoint that first holds it"
        row = torch.arange(low, high) % ring.L
        at = (row[:, None] * ring.B + torch.arange(ring.B)).flatten()
        there = at.to(ring.device)
        tensors = {name: getattr(ring, name).index_select(0, there).cpu() for name in _CELLS}
        # The bit SAMPLEABLE depends on later steps and is recomputed.
        tensors["flags"] &= ~SAMPLEABLE & 0xFF
        final = ring.host.final[at]
        tensors["ended"] = ended = (final >= 0).nonzero().squeeze(-1)
        tensors["final_frames"] = ring.finals.frames[final[ended].long().to(ring.device)].cpu()
        return tensors

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore the replay's ring from a checkpoint. Raises ConfigError for a damaged segment, and ValueError if the
        ring's shape differs."""
        ring, B = self.ring, self.ring.B
        ring.cursor = state["cursor"]
        ring.host.final.fill_(NONE)
        ring.finals.clear()
        self._whole = []
        for (low, high), segment in zip(state["rows"], state["segments"], strict=True):
            tensors = segment.load()
            n = len(tensors["age"]) // B
            if len(tensors["age"]) != (high - low) * B or tensors["frames"].shape[1:] != ring.frames.shape[1:]:
                raise ValueError(f"the replay's {segment.name} holds {n} rows of another environment or size")
            skip = max(0, ring.oldest - low)
            row = torch.arange(low + skip, high) % ring.L
            at = (row[:, None] * B + torch.arange(B)).flatten()
            for name in _CELLS:
                array = getattr(ring.host if name in _KNOWN_TO_HOST else ring, name)
                array[at.to(array.device)] = tensors[name][skip * B :].to(array.device)
            ended = tensors["ended"]
            kept = ended >= skip * B
            if kept.any():
                slots = ring.finals.put(tensors["final_frames"][kept])
                ring.host.final[at[ended[kept] - skip * B]] = slots
            if high % self.rows == 0:
                self._whole.append((low, high, segment))
        ring.show(ring.oldest)
