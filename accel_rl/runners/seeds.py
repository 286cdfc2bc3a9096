"""Streams of randomness that follow from a run's seed."""

from enum import IntEnum

import numpy as np


class Stream(IntEnum):
    """Purposes of random streams. The numbers are part of every recorded run."""

    SAMPLER = 0
    MODEL = 1
    EVALUATION = 2
    SECONDARY = 3
    RANK = 4


def derived_seed(seed: int, stream: Stream, *index: int) -> int:
    """Return the seed of a stream. index: of one of several, such as the env steps of an evaluation."""
    spawn_key = (10_000_000 + stream, *index)
    return int(np.random.SeedSequence(seed, spawn_key=spawn_key).generate_state(1)[0] >> 1)
