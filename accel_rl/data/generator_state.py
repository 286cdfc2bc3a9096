"""States of torch's random generators that move between kinds of devices.

A CPU's generator is a Mersenne Twister of 5,056 bytes, a CUDA GPU's a seed and a counter of 16 bytes. Neither can
continue from the other's state. A run that changes its device begins new streams there, whose seeds follow from the
saved states, so that the continued run is a function of the checkpoint.
"""

import hashlib

import torch
from torch import Tensor

from accel_rl.system.devices import Device
from accel_rl.system.hardware import say_once

_MOVED = (
    "the run continues on another kind of device: its random numbers there begin from seeds that follow from the "
    "checkpoint"
)


def seed_from(state: Tensor) -> int:
    """Return a seed in [0, 2^63) that follows from every byte of a generator's state [n] uint8."""
    return int.from_bytes(hashlib.sha256(state.cpu().numpy().tobytes()).digest()[:8], "little") >> 1


def restore(generator: torch.Generator, state: Tensor) -> None:
    """Put a saved state [n] uint8 into a generator, or, with a note, seed it from that of another kind of device."""
    if len(state) == len(generator.get_state()):
        generator.set_state(state.cpu())
    else:
        say_once(_MOVED)
        generator.manual_seed(seed_from(state))


def restore_default(cpu: Tensor, gpu: Tensor | None, device: torch.device | str) -> None:
    """Restore torch's default generators of the CPU and of a GPU that the run continues on.

    gpu: None in a run that had no GPU; the GPU's generator then begins, with a note, from a seed of the CPU's state.
    """
    torch.set_rng_state(cpu)
    gpus = Device(device)
    if not gpus.queues_work:
        if gpu is not None:
            say_once(_MOVED)
        return
    if gpu is not None and len(gpu) == len(gpus.runtime.get_rng_state(gpus)):
        gpus.set_random_state(gpu)
    else:
        say_once(_MOVED)
        with gpus.runtime.device(gpus):
            gpus.runtime.manual_seed(seed_from(cpu if gpu is None else gpu))
