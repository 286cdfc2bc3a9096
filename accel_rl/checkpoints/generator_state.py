"""Saved states of torch's random generators can move between a CPU and a GPU.

The state of a CPU's generator is a Mersenne Twister of 5,056 bytes. The state of a CUDA generator is a seed and a
counter of 16 bytes. A generator cannot continue from the state of another device's generator. A run that changes its
device therefore begins new random streams, whose seeds are computed from the saved states.
"""

import hashlib

import torch
from torch import Tensor

from accel_rl.machine.devices import Device
from accel_rl.text.notes import say_once

_MOVED = (
    "the run continues on another kind of device: its random numbers there begin from seeds that follow from the "
    "checkpoint"
)


def seed_from(state: Tensor) -> int:
    """A seed in [0, 2^63) from all bytes of a generator's state [n] uint8."""
    return int.from_bytes(hashlib.sha256(state.cpu().numpy().tobytes()).digest()[:8], "little") >> 1


def restore(generator: torch.Generator, state: Tensor) -> None:
    """`state` is [n] uint8. If the state was saved on another kind of device, a new seed is computed from the state,
    and a message is logged."""
    if len(state) == len(generator.get_state()):
        generator.set_state(state.cpu())
    else:
        say_once(_MOVED)
        generator.manual_seed(seed_from(state))


def restore_default(cpu: Tensor, gpu: Tensor | None, device: torch.device | str) -> None:
    """Restore torch's default generators of the CPU and of the GPU `device`. If `gpu` is None, the run had no GPU; then
    the GPU's generator is seeded from the CPU generator's state, and a message is logged."""
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
