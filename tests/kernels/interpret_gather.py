"""Compare the Triton kernel that gathers transitions, in Triton's interpreter, with plain torch operations.

    python -m tests.kernels.interpret_gather

The comparison needs a separate process, because Triton's interpreter must be selected before Triton is imported.
"""

import itertools
import os

os.environ["TRITON_INTERPRET"] = "1"

import torch

from accel_rl.kernels.replay_gather_triton import launch
from accel_rl.kernels.ring_arrays import ENDED, RingArrays, gather

L, B, SLOTS, N = 13, 3, 5, 7
FRAMES = (((84, 84), torch.uint8), ((3, 5), torch.uint8), ((5, 2), torch.uint8), ((6, 6), torch.uint8))
VECTORS = (((27,), torch.float32), ((2,), torch.float32), ((), torch.float32))


def arrays(stack: int, n: int, clip: float, shape: tuple[int, ...], dtype: torch.dtype, B: int = B) -> RingArrays:
    """Return the arrays of a replay ring with random contents: frames, actions, rewards, ages, and ends of episodes."""
    size = L * B
    frames = [torch.randint(1, 256, (k, *shape)).to(dtype) + (torch.rand(()) if dtype.is_floating_point else 0)
              for k in (size, SLOTS)]  # fmt: skip
    flags = torch.randint(0, 16, (size,), dtype=torch.uint8)
    final = torch.where((flags & ENDED) > 0, torch.randint(0, SLOTS, (size,)), -1).to(torch.int32)
    age = torch.randint(0, max(stack, 2), (size,), dtype=torch.uint8)
    action = torch.randint(0, 200, (size,), dtype=torch.uint8 if stack > 1 else torch.int16)
    reward = 3 * torch.randn(size)
    reward[torch.rand(size) < 0.05] = float("nan")
    return RingArrays(frames[0], frames[1], age, action, reward, flags, final, B, stack, n, 0.97, clip)


def main() -> None:
    torch.manual_seed(0)
    cases = [(s, n, c, *f) for s, n, c, f in itertools.product((1, 4), (1, 3), (0.0, 1.0), FRAMES)]
    cases += [(1, n, 1.0, *v) for n, v in itertools.product((1, 3), VECTORS)]
    for case in cases:
        for ring in (arrays(*case), arrays(*case, B=1)):
            # Cells are numbered from the first cell ever written, so that numbers may exceed the size of the ring.
            cell = torch.randint(4 * ring.B, 10 * L * ring.B, (N,))
            for name, x, y in zip(
                ("obs_tm1", "obs_t", "r_t", "discount_t", "a_tm1"), launch(ring, cell), gather(ring, cell), strict=True
            ):
                assert x.dtype == y.dtype and x.shape == y.shape and x.is_contiguous(), (case, name)
                assert torch.equal(x.nan_to_num(-7), y.nan_to_num(-7)), (case, name)  # bit for bit
    assert launch(ring, cell[:0])[0].shape == (0,)
    print(f"{len(cases)} cases are equal")


if __name__ == "__main__":
    main()
