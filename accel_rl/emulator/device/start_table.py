"""The table of all possible start states of an episode is computed on the host."""

from typing import NamedTuple

import numpy as np

from accel_rl.emulator.counter import start_at, wait_at
from accel_rl.emulator.env_core import AtariEnvCore


class Starts(NamedTuple):
    """play [rows, columns, bytes] uint8 are consoles and games. frames [rows, columns, height, width] uint8 are first
    observations. An episode's row and column are drawn by counter (see emulator.counter)."""

    play: np.ndarray
    frames: np.ndarray


def start_table(core: AtariEnvCore, starts: list[list[tuple[int, int]]], frame_shape: tuple[int, ...]) -> Starts:
    """Play every start. starts [rows, columns] of (timer, number of no-op frames), where each row has one timer."""
    plays: list[list[np.ndarray]] = []
    frames = np.zeros((len(starts), len(starts[0]), *frame_shape), np.uint8)
    frame = np.zeros((1, *frame_shape), np.uint8)
    for r, row in enumerate(starts):
        plays.append([])
        for c, (timer, noops) in enumerate(row):
            if c:
                wait_at(core, timer, noops - row[c - 1][1])
            else:
                start_at(core, timer, noops)
            core.begin(frame)
            frames[r, c] = frame[0]
            plays[r].append(np.frombuffer(core.play(), np.uint8))
    return Starts(np.array(plays), frames)
