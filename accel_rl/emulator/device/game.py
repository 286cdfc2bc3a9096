"""The ROM, rules and start states of a game, which all environments of the game on a device share."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from accel_rl.emulator.atari import core
from accel_rl.emulator.counter import start_at, wait_at
from accel_rl.emulator.env_core import OBSERVATIONS, AtariEnvCore
from accel_rl.emulator.games import cartridge, read_rom, settings


class Starts(NamedTuple):
    """A table of start states: `play` [rows, columns, bytes] uint8 are states of console and game, and `frames` [rows,
    columns, height, width] uint8 their first frames. Random numbers (emulator/counter.py) select the row and the column
    of an episode."""

    play: np.ndarray
    frames: np.ndarray


def start_table(
    core: AtariEnvCore, starts: list[list[tuple[int, int]]], frame_shape: tuple[int, ...], fire: bool = False
) -> Starts:
    """Emulate all start states. `starts` [rows, columns] has (timer, number of no-op frames), with one timer per row.
    If `fire` is true, the fire button is pressed in the first frame, as in VectorEnv."""
    plays: list[list[np.ndarray]] = []
    frames = np.zeros((len(starts), len(starts[0]), *frame_shape), np.uint8)
    frame = np.zeros((1, *frame_shape), np.uint8)
    for r, row in enumerate(starts):
        plays.append([])
        for c, (timer, noops) in enumerate(row):
            if c:
                wait_at(core, timer, noops - max(row[c - 1][1], int(fire)))
            else:
                start_at(core, timer, noops, fire)
            core.begin(frame)
            frames[r, c] = frame[0]
            plays[r].append(np.frombuffer(core.play(), np.uint8))
    return Starts(np.array(plays), frames)


def begin_translation(game: str, device: torch.device | str, translate: bool = True) -> str:
    """If `device` is a GPU and translation is on, start to compile the game's own kernel in the background, and return
    the game's name. Return "" if the kernel of all games must be used."""
    if torch.device(device).type != "cuda":
        return ""
    from accel_rl.emulator.device import block_kernel, cuda

    if not block_kernel.is_on(translate):
        return ""
    block_kernel.begin(game, cuda.gpu_index(device))
    return game


@dataclass(frozen=True)
class AgentStepRules:
    """The rules of an agent step, which envs.protocols defines."""

    frame_skip: int
    max_steps: int
    life_loss: bool
    repeat_probability: float
    frame: str
    oldest: int  # The age (steps) of an episode is counted only up to `oldest`.
    one_life: bool = False  # If `one_life` is true, a lost life ends the agent step and the episode.


class DeviceGame:
    """A game's ROM, rules and start states as tensors in a device's memory."""

    def __init__(
        self,
        game: str,
        rules: AgentStepRules,
        codes: Sequence[int],
        luminance: np.ndarray,
        starts: Starts,
        device: torch.device | str,
        translated: str = "",
    ) -> None:
        """`codes` maps the agent's actions to joystick actions. `luminance` [256] uint8 maps the TIA's colour bytes to
        gray. `translated` is the result of `begin_translation`."""
        functions = core().device
        self.game, self.translated = game, translated
        self.rules = rules
        self.device = torch.device(device)
        self.observation, self.kind = OBSERVATIONS.index(rules.frame), cartridge(game)
        self.rom_bytes = functions.cartridge_size(self.kind)
        rom = read_rom(game)
        while len(rom) < self.rom_bytes:  # A ROM that is smaller than its address space is repeated.
            rom += rom[: self.rom_bytes - len(rom)]
        self.rom = rom = rom[: self.rom_bytes]
        self.shape = starts.frames.shape[2:]
        self.start_rows, self.start_columns = starts.frames.shape[:2]
        self.env_words = functions.words["env"]
        states = np.zeros((self.start_rows, self.start_columns, 4 * self.env_words), np.uint8)
        states[..., : starts.play.shape[-1]] = starts.play
        self.height = settings(game)["height"]  # rows of a picture
        tables = core().game_tables(settings(game))
        continued = functions.continued_starts(states.tobytes(), rom, self.kind, tables)
        self.tables = {
            "game": self._bytes(tables),
            "rom": self._bytes(rom),
            "code": self._bytes(functions.program_code(rom, self.kind)),
            "stages": self._bytes(functions.stages()),
            "luminance": self._bytes(luminance.tobytes()),
            "codes": self._bytes(np.array(codes, np.int32).tobytes()),
            "starts": self._bytes(states.tobytes()),
            "start_frames": self._bytes(starts.frames.tobytes()),
            # The address of a tensor without elements is null.
            "continued": self._bytes(continued) if continued else torch.empty(0, dtype=torch.uint8, device=self.device),
        }

    def _bytes(self, source: bytes) -> Tensor:
        """Copy bytes to the device, padded to whole words."""
        padded = source + bytes(8 - len(source) % 4)
        return torch.frombuffer(bytearray(padded), dtype=torch.uint8).to(self.device)
