"""Atari environments of the compiled C++ core.

    core = make_env_core("pong", "104x80", luminance, frame_skip=4, max_steps=27_000, life_loss=True)
    core.reset()                               # resets the console; begin(frame) starts an episode
    step_env_cores([core], codes, None, out)   # codes [n] int32 of the 18 actions, below 0: skipped; out: data.Step

`step_env_cores` steps several games in one call of the compiled core.
"""

import os
from typing import Protocol

import numpy as np

from accel_rl.data.rollout_arrays import Step
from accel_rl.emulator.atari import EmulatorCore, core
from accel_rl.emulator.games import cartridge, has_all_frames, read_rom, settings, steps
from accel_rl.emulator.translation import begin
from accel_rl.text.errors import ConfigError

OBSERVATIONS = ("104x80", "104x80-mean", "84x84")


class AtariEnvCore(EmulatorCore, Protocol):
    """The Python interface of the compiled class AtariEnvCore (env_core.h)."""

    steps: int
    held: int
    lives_before: int

    def begin(self, frame: np.ndarray) -> None: ...
    def observe(self, frame: np.ndarray) -> None: ...
    def set_raw(self, ram: bool, palette: bytes) -> None: ...


def make_env_core(
    game: str,
    observation: str,
    luminance: np.ndarray,
    frame_skip: int,
    max_steps: int,
    life_loss: bool,
    repeat_probability: float = 0.0,
    mode: int | None = None,
    difficulty: int | None = None,
    rom: str | os.PathLike[str] | None = None,
    translate: bool = True,
    outlives: bool = True,
) -> AtariEnvCore:
    """Load one game, or raise ConfigError. `luminance` [256] uint8 maps the TIA's colour bytes to gray. `rom` is the
    path of a ROM to use instead of ale-py's. If `translate` is true, the game's ROM is translated to C++ and compiled
    in the background (translation.py). If `translate` is false, this environment interprets the ROM. If `outlives` is
    true, the compiler keeps running after the end of this process."""
    kind = OBSERVATIONS.index(observation)
    if kind and not has_all_frames(game):
        rows = settings(game)["height"]
        raise ConfigError(f"frame={observation} of {game} with its {rows} rows: use env.backend=ale, or frame=104x80")
    rules = (frame_skip, max_steps, life_loss, repeat_probability, kind, luminance)
    env_core: AtariEnvCore = core().AtariEnvCore(read_rom(game, rom), cartridge(game), settings(game), *rules)
    if mode is not None:
        env_core.set_steps(steps(game, mode))
    if difficulty is not None:
        env_core.set_difficulty(difficulty)
    env_core.set_translates(translate)
    if translate:
        begin(env_core, game, rom, outlives)
    return env_core


def step_env_cores(cores: list[AtariEnvCore], codes: np.ndarray, draws: np.ndarray | None, out: Step) -> None:
    """Play an agent step in each environment. `draws` [n, frame_skip] float64 in [0, 1) are the random numbers of
    sticky actions. The results are written to all fields of `out` except `age` and `valid`."""
    core().step_env_cores(cores, codes, draws, out.frame, out.reward, out.terminated, out.truncated, out.ended)
