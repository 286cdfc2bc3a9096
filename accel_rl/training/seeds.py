"""The seeds of all random generators of a run are derived from the run's seed."""

from collections.abc import Iterator
from contextlib import contextmanager
from enum import IntEnum

import numpy as np
import torch

from accel_rl.machine.devices import Device


class Stream(IntEnum):
    """The purpose of a random generator. The values of this enumeration must not change, because the random numbers of
    recorded runs depend on them."""

    SAMPLER = 0
    MODEL = 1
    EVALUATION = 2
    SECONDARY = 3
    RANK = 4


def derived_seed(seed: int, stream: Stream, *index: int) -> int:
    """The seed of a generator. `index` distinguishes generators with the same purpose: the index of an evaluation is
    its number of env steps."""
    spawn_key = (10_000_000 + stream, *index)
    return int(np.random.SeedSequence(seed, spawn_key=spawn_key).generate_state(1)[0] >> 1)


@contextmanager
def own_generator(device: str, seed: int) -> Iterator[None]:
    """A context in which torch's default generators, of the CPU and of a GPU, start from `seed`. At the end, the
    generators' previous states are restored, so that training's random numbers do not change."""
    before = torch.get_rng_state()
    before_gpu = Device(device).random_state()
    torch.manual_seed(seed)
    try:
        yield
    finally:
        torch.set_rng_state(before)
        Device(device).set_random_state(before_gpu)
