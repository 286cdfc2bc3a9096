"""ROM files of games: those that ale-py installs, and a user's own."""

import os
import zlib
from pathlib import Path

from accel_rl.emulator.games import games
from accel_rl.system.errors import ConfigError
from accel_rl.system.hardware import say_once


def rom_path(game: str) -> Path:
    """Return the path of ale-py's ROM file of a game. Raises ConfigError."""
    import ale_py.roms

    path = Path(ale_py.roms.__file__).parent / f"{game}.bin"
    if not path.is_file():
        raise ConfigError(f"ale-py has no ROM for {game!r}")
    return path


def read_rom(game: str, path: str | os.PathLike[str] | None = None) -> bytes:
    """Return the bytes of ale-py's ROM of a game, or of the file `path`, which has the same number of bytes. A ROM of
    ale-py that differs from the compared one is reported once. Raises ConfigError."""
    rom = rom_path(game).read_bytes()
    if path is not None:
        return _own(path, len(rom), game)
    if zlib.crc32(rom) != games()[game]["crc32"]:
        say_once(f"ale-py's ROM of {game} is not that of ale-py 0.12.1, with which the emulator was compared")
    return rom


def _own(path: str | os.PathLike[str], size: int, game: str) -> bytes:
    file = Path(path).expanduser()
    try:
        got = file.stat().st_size
        if got != size:
            raise ConfigError(f"rom={str(path)!r} has {got:,} bytes: must have {size:,}, as the ROM of {game}")
        return file.read_bytes()
    except OSError as e:
        raise ConfigError(f"rom={str(path)!r} cannot be read: {e.strerror}") from e
