"""Upper bounds on the memory that environments need, computed before any process starts.

With ale-py 0.12.1 on Linux (pong, breakout), an environment uses 0.66 to 0.78 MB of private memory, and a worker
process without environments uses 26 MB. The bounds include a margin for other games and memory allocators.
"""

import math
from dataclasses import dataclass

import numpy as np

from accel_rl.data.rollout_arrays import rollout_layout
from accel_rl.data.spec import EnvSpec
from accel_rl.samplers.workers.stepper import BUFFERS

EMULATOR_BYTES = 5 * 2**18
WORKER_BYTES = 96 * 2**20
DEVICE_EMULATOR_BYTES = 2**14  # An environment on a GPU needs 16 KiB.


@dataclass(frozen=True, slots=True)
class MemoryBudget:
    """Upper bounds in bytes: `emulator` on the private memory of an environment, `shared` on an environment's part of
    the shared rollouts, and `worker` on the private memory of a worker process."""

    emulator: int
    shared: int
    worker: int

    def total(self, B: int, workers: int) -> int:
        return B * (self.emulator + self.shared) + workers * self.worker

    def line(self) -> str:
        return (
            f"at most {self.emulator / 2**20:.2f} MiB of emulator and {self.shared / 2**20:.2f} MiB of shared frames "
            f"an Atari environment, {self.worker / 2**20:.0f} MiB a worker"
        )


def bound(spec: EnvSpec, T: int, reset: str = "immediate") -> MemoryBudget:
    """Return the bounds for an Atari game with rollouts of T steps. A third of the shared memory is for `final_frames`,
    whose pages are used only if episodes end."""
    layout = rollout_layout(spec, T, 1)
    shared = sum(np.dtype(dtype).itemsize * math.prod(shape) for dtype, shape in layout.values())
    return MemoryBudget((2 if reset == "swap" else 1) * EMULATOR_BYTES, BUFFERS * shared, WORKER_BYTES)
