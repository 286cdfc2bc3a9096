"""The state of an environment with counter randomness has the same bytes on every engine (`Env` of kernels/envs.h).

Pictures and random generators are not part of the state: a step draws its pictures, and random numbers are functions of
their position.
"""

from typing import NamedTuple

import numpy as np

from accel_rl.emulator.atari import core


class CounterState(NamedTuple):
    """`play` is the state of console and game (`EmulatorCore.play`). `number` is the episode's number. For `age` see
    `data.step.Step`."""

    play: bytes
    steps: int
    held: int
    lives_before: int
    seed: int
    number: int
    age: int = 0

    def to_bytes(self) -> bytes:
        """Return the state as the bytes of an `Env`."""
        at = core().device.words
        words = np.zeros(at["env"], np.uint32)
        play = np.frombuffer(self.play, np.uint32)
        words[: len(play)] = play
        words[at["steps"] : at["steps"] + 3] = np.array([self.steps, self.held, self.lives_before]).astype(np.uint32)
        for name, value in (("seed", self.seed), ("number", self.number), ("age", self.age)):
            words[at[name]] = value % 2**32
        return words.tobytes()

    @classmethod
    def from_bytes(cls, state: bytes) -> "CounterState":
        """Build the state from the bytes of `to_bytes`. Raises ValueError for another number of bytes."""
        at, sizes = core().device.words, core().device.sizes
        if len(state) != sizes["env"]:
            raise ValueError(f"the state of an environment has {len(state)} bytes; expected {sizes['env']}")
        words = np.frombuffer(state, np.uint32)
        steps, held = words[at["steps"] : at["steps"] + 2].tolist()
        lives = int(words[at["steps"] + 2 : at["steps"] + 3].view(np.int32)[0])
        seed, number, age = (int(words[at[name]]) for name in ("seed", "number", "age"))
        return cls(state[: sizes["play"]], steps, held, lives, seed, number, age)
