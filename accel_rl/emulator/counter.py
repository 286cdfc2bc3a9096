"""A counter-based generator computes each random number of an episode from its index, not from earlier numbers.

    | start     (seed, episode)             -> the console's timer after the power cycle, no-op frames
    | sticky    (seed, episode, step)       -> a number for each frame of the agent step

The generator is Philox4x32-10 (Salmon et al. 2011, "Parallel random numbers: as easy as 1, 2, 3"; core/philox.h). GPUs
and CPUs draw the same random numbers.
"""

from typing import NamedTuple

import numpy as np

from accel_rl.emulator.atari import EmulatorCore, core
from accel_rl.emulator.games import FIRE
from accel_rl.text.errors import ConfigError

MOST_NOOPS = 100  # A GPU's table of start states takes 75 x 9 KB per number of no-ops.
CACHED_STARTS = 30  # Dalton & Frosio 2020 use "a cache of random initial states (30 by default)" (section 3).
CACHE_SEED = 2020  # The seed of cached start states is constant, so that all runs have the same cached start states.


def check_noops(noop_max: int) -> None:
    """Raise ConfigError if the table of start states on a GPU would be too large."""
    if noop_max > MOST_NOOPS:
        raise ConfigError(f"noop_max={noop_max}: at most {MOST_NOOPS} with --sampler.engine device")


class Counter:
    """Computes the random numbers of an episode. If `cached` is true, every episode begins in one of CACHED_STARTS
    states."""

    def __init__(self, noop_max: int, frame_skip: int, cached: bool, noop_min: int = 0) -> None:
        self._counter, self._frame_skip = core().counter, frame_skip
        timers, noops = self._counter.TIMERS, noop_max - noop_min + 1
        first = self._counter.FIRST_TIMER
        self.starts = [[(first + row, noop_min + column) for column in range(noops)] for row in range(timers)]
        """`starts` [rows, columns] has (timer, number of no-op frames) for each start state. All start states are
        equally likely."""
        if cached:
            places = [self._counter.start_draws(CACHE_SEED, k, timers, noops) for k in range(CACHED_STARTS)]
            self.starts = [[self.starts[row][column]] for row, column in places]

    def start(self, seed: int, episode: int) -> tuple[int, int]:
        """Return the start state of an episode: (timer, number of no-op frames)."""
        row, column = self._counter.start_draws(seed, episode, len(self.starts), len(self.starts[0]))
        return self.starts[row][column]

    def sticky(self, seed: int, episode: int, step: int) -> list[float]:
        """Return one random number in [0, 1) for each frame of an agent step, for sticky actions."""
        drawn: list[float] = self._counter.sticky_draws(seed, episode, step, self._frame_skip)
        return drawn


def start_at(console: EmulatorCore, timer: int, noops: int, fire: bool = False) -> None:
    """Reset a console to the start state that a timer value and a number of no-op frames determine. If `fire` is true,
    the fire button is pressed in the first no-op frame, or in one additional frame if `noops` is 0."""
    console.restart(timer)
    wait_at(console, timer, int(fire), FIRE)
    wait_at(console, timer, noops - fire)


def wait_at(console: EmulatorCore, timer: int, noops: int, action: int = 0) -> None:
    """Play `noops` frames with `action`. If the game ends, reset the console to the timer's value after the power
    cycle."""
    for _ in range(noops):
        console.act(action)
        if console.over:
            console.restart(timer)


class CounterState(NamedTuple):
    """The saved state of an environment with counter-based random numbers, which all engines can load (in C++: Env in
    kernels/envs.h).

    `play` is the state of console and game (`EmulatorCore.play`). `number` is the episode's number, and `age` is the
    number of steps since the episode's first frame. The state contains neither frames nor a random generator.
    """

    play: bytes
    steps: int
    held: int
    lives_before: int
    seed: int
    number: int
    age: int = 0

    def to_bytes(self) -> bytes:
        index = core().device.words
        words = np.zeros(index["env"], np.uint32)
        play = np.frombuffer(self.play, np.uint32)
        words[: len(play)] = play
        first = index["steps"]
        words[first : first + 3] = np.array([self.steps, self.held, self.lives_before]).astype(np.uint32)
        for name, value in (("seed", self.seed), ("number", self.number), ("age", self.age)):
            words[index[name]] = value % 2**32
        return words.tobytes()

    @classmethod
    def from_bytes(cls, state: bytes) -> "CounterState":
        """Convert the result of `to_bytes` back to a state. Raises ValueError for a wrong number of bytes."""
        index, sizes = core().device.words, core().device.sizes
        if len(state) != sizes["env"]:
            raise ValueError(f"the state of an environment has {len(state)} bytes; expected {sizes['env']}")
        words = np.frombuffer(state, np.uint32)
        steps, held = words[index["steps"] : index["steps"] + 2].tolist()
        lives = int(words[index["steps"] + 2 : index["steps"] + 3].view(np.int32)[0])
        seed, number, age = (int(words[index[name]]) for name in ("seed", "number", "age"))
        return cls(state[: sizes["play"]], steps, held, lives, seed, number, age)
