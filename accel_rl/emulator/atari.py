"""An `AtariEmulator` plays one Atari game.

    emulator = AtariEmulator("breakout", seed=1)
    reward = emulator.act(1)                       # one frame; 18 actions, as in ale_py.Action
    emulator.screen(), emulator.gray(), emulator.rgb(), emulator.ram()
    state = emulator.save()                        # bytes from which `restore` continues identically

Tests compare the emulator frame for frame with ale-py 0.12.1.
"""

import functools
from typing import Any, Protocol

import numpy as np

from accel_rl.emulator import palette
from accel_rl.emulator.games import cartridge, check_switches, games, read_rom, settings, steps
from accel_rl.machine.extensions import remedy
from accel_rl.text.errors import ConfigError


class EmulatorCore(Protocol):
    """The Python interface of the compiled class Emulator (emulator.h)."""

    @property
    def over(self) -> bool: ...
    @property
    def lives(self) -> int: ...
    @property
    def frames(self) -> int: ...
    @property
    def episode_frames(self) -> int: ...
    def load(self) -> None: ...
    def reset(self) -> None: ...
    def restart(self, timer: int) -> None: ...
    def act(self, action: int) -> int: ...
    def play(self) -> bytes: ...
    def set_play(self, play: bytes) -> None: ...
    def save(self) -> bytes: ...
    def restore(self, state: bytes) -> None: ...
    def ram(self) -> np.ndarray: ...
    def set_ram(self, address: int, value: int) -> None: ...
    def screen(self) -> np.ndarray: ...
    def mapped(self, palette: np.ndarray, channels: int) -> np.ndarray: ...
    def trace(self, action: int) -> list[tuple[int, ...]]: ...
    def set_steps(self, steps: list[tuple[Any, ...]]) -> None: ...
    def set_difficulty(self, difficulty: int) -> None: ...
    def set_fast(self, fast: bool) -> None: ...
    @property
    def is_translated(self) -> bool: ...
    def translated(self, recorded: int, frames: int) -> str: ...
    def insert_translation(self, address: int | None) -> None: ...
    def set_translates(self, on: bool) -> None: ...


@functools.cache
def core() -> Any:
    """Import the C++ extension of the emulator. Raises ConfigError if the extension is not compiled."""
    try:
        from accel_rl.emulator import _core
    except ImportError as error:
        raise ConfigError(f"the emulator is not built: {remedy('emulator/_core', error)}") from error
    return _core


class AtariEmulator:
    """Plays one game. If `fast` is true, the fast C++ core computes the frames, which equal those of the plain C++
    core.

    Raises ConfigError if the game is unknown or the core is not compiled, and ValueError for a bad ROM or state.
    """

    def __init__(
        self,
        game: str,
        seed: int = 0,
        sticky: float = 0.0,
        mode: int | None = None,
        difficulty: int | None = None,
        rom: bytes | None = None,
        fast: bool = True,
    ) -> None:
        self.game = game
        self.settings = settings(game)
        check_switches(game, mode, difficulty)
        if not 0 <= sticky <= 1:
            raise ConfigError(f"sticky probability {sticky}; allowed is 0 to 1")
        rom = read_rom(game) if rom is None else rom
        self._emulator: EmulatorCore = core().Emulator(rom, cartridge(game), self.settings, seed, sticky, fast)
        # As in ale-py, a mode or difficulty is set after a game was loaded with the defaults, before a reset.
        if mode is not None:
            self._emulator.set_steps(steps(game, mode))
        if difficulty is not None:
            self._emulator.set_difficulty(difficulty)
        if mode is not None or difficulty is not None:
            self._emulator.reset()

    @property
    def minimal_actions(self) -> list[int]:
        return list(games()[self.game]["actions"])

    def act(self, action: int) -> int:
        """Run one frame, and return the reward."""
        return self._emulator.act(action)

    def reset(self) -> None:
        self._emulator.reset()

    @property
    def game_over(self) -> bool:
        return self._emulator.over

    @property
    def lives(self) -> int:
        return self._emulator.lives

    @property
    def frame_number(self) -> int:
        return self._emulator.frames

    @property
    def episode_frame_number(self) -> int:
        return self._emulator.episode_frames

    def ram(self) -> np.ndarray:
        return self._emulator.ram()

    def set_ram(self, address: int, value: int) -> None:
        self._emulator.set_ram(address, value)

    def screen(self) -> np.ndarray:
        """Return the TIA's colour bytes [height, 160] uint8."""
        return self._emulator.screen()

    def gray(self) -> np.ndarray:
        """Return the gray screen [height, 160] uint8."""
        return self._emulator.mapped(palette.gray(self.game), 1)

    def rgb(self) -> np.ndarray:
        """Return the colour screen [height, 160, 3] uint8."""
        return self._emulator.mapped(palette.rgb(self.game), 3)

    def save(self) -> bytes:
        return self._emulator.save()

    def restore(self, state: bytes) -> None:
        """Restore a saved state. If the state is invalid, raises ValueError with the reason, and leaves the emulator
        unchanged."""
        self._emulator.restore(state)

    def trace(self, action: int) -> list[tuple[int, ...]]:
        """Run one frame. Return one tuple per executed instruction: (cycle, line, cycle in line, pc, three bytes at pc,
        a, x, y, sp)."""
        return self._emulator.trace(action)
