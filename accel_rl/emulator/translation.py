"""Translate a game's ROM to C++ and compile it when the game is first played. The translated game computes the same
frames as the interpreted game, but faster.

    | ROM -> C++ of each instruction (translation.h) -> compiler -> a file of the cache folder -> the game's emulators

The compiler runs in the background (rom_compiler.py). The emulator interprets the ROM until the compilation is
complete. Without a cached translation and a compiler, the emulator always interprets the ROM. The cached file's name
contains a hash of the ROM and the machine type, and a hash of the emulator's sources and the compiler's flags. The
file's name does not depend on the compiler, so that a translation compiled while a container image is built is also
used where no compiler is installed. accel_rl is distributed without translations, because they are derived from the
ROMs.
"""

import contextlib
import functools
import hashlib
import logging
import os
import platform
import threading
from pathlib import Path
from typing import TYPE_CHECKING

from accel_rl.emulator.atari import core
from accel_rl.emulator.games import cartridge, read_rom
from accel_rl.emulator.rom_compiler import FLAGS, FRAMES, compilers, function_in, run_compiler, turn, untried
from accel_rl.files import code_cache
from accel_rl.files.code_cache import cache_folder, folder_to_fill, system_folder
from accel_rl.text.errors import ConfigError, nearest

if TYPE_CHECKING:
    from accel_rl.emulator.atari import EmulatorCore

logger = logging.getLogger(__name__)

VARIABLE = "ACCEL_RL_TRANSLATE"
"""The environment variable ACCEL_RL_TRANSLATE=off (or 0, false, no) switches translation off."""
OFF, ON = ("off", "0", "false", "no"), ("", "on", "1", "true", "yes", "auto")

_begun: set[Path] = set()


def begin(
    emulator: "EmulatorCore", game: str, rom: str | os.PathLike[str] | None = None, outlives: bool = False
) -> None:
    """Make all emulators of this process with the same ROM use the translated ROM: immediately if it is cached, and
    otherwise when it has been compiled in the background. `rom` is the path of a ROM to use instead of ale-py's. If
    `outlives` is true, the compiler keeps running after the end of this process."""
    if emulator.is_translated or (file := translation_file(game, rom)) is None:
        return
    if not _insert(emulator, file) and file not in _begun and untried(file):
        _begun.add(file)
        arguments = (emulator, file, game, rom, outlives)
        thread = threading.Thread(target=_compile, args=arguments, daemon=True, name="translate")
        try:
            thread.start()
        except RuntimeError as error:  # The thread cannot start, because the system allows no more threads.
            logger.info(f"{game} is interpreted: {error}")


def translate(game: str, rom: str | os.PathLike[str] | None = None) -> bool:
    """Translate a game now, unless its translation is cached. The translation is stored in the system's cache folder if
    this user may write to it, and otherwise in the user's cache folder. Return whether a translation is available.
    Raises ConfigError if the game or its ROM is unknown, or if other users could write to the cache folder."""
    if (file := translation_file(game, rom)) is None:
        return False
    file = folder_to_fill() / file.name
    if _address(file) is None and untried(file):
        with turn(file) as locks:
            if _address(file) is None:  # Another process may have compiled the game while this one waited.
                run_compiler(file, game, rom, locks, outlives=False)
    return _address(file) is not None


def translation_file(game: str, rom: str | os.PathLike[str] | None = None) -> Path | None:
    """Return the path of a game's translation in the cache folder, which may not exist yet. Return None if
    ACCEL_RL_TRANSLATE switches translation off, or if the emulator was compiled from other sources."""
    if is_off() or is_stale():
        return None
    what, version = (read_rom(game, rom), cartridge(game), platform.machine()), (_sources(), FLAGS, FRAMES)
    first, second = (hashlib.sha256(repr(part).encode()).hexdigest()[:16] for part in (what, version))
    return cache_folder() / f"rom-{game}-{first}-{second}.so"


def how_played(game: str) -> str:
    """Return a text for the log: whether the game is translated or interpreted, and why. The text is "" if
    ACCEL_RL_TRANSLATE switches translation off."""
    if is_off():
        return ""
    if is_stale():
        why = (
            "the emulator was compiled from other sources than those in its folder; compile it again: pip install -e ."
        )
        return f"{game} is interpreted, because {why}"
    file = translation_file(game)
    assert file is not None
    return _how(game, file) + _unused_system_cache()


def _how(game: str, file: Path) -> str:
    with contextlib.suppress(ConfigError):
        if _address(file) is not None:
            return f"{game} is translated"
    if reason := code_cache.refusal(file.parent):
        return f"{game} is interpreted, because {reason}"
    if not compilers():
        return f"{game} is interpreted, because no C++ compiler is installed (g++ or clang++)"
    if not untried(file):
        paths = " and ".join(compiler.path for compiler in compilers())
        return f"{game} is interpreted, because {paths} failed to compile it in the last 24 hours"
    return f"{game} is interpreted until it is translated"


def _unused_system_cache() -> str:
    if (folder := system_folder()) is None:
        return ""
    reason = code_cache.refusal(folder) or ("" if folder.is_dir() else f"there is no folder {folder}")
    return f"; {code_cache.SYSTEM} is not used, because {reason}" if reason else ""


def is_off() -> bool:
    """Return whether ACCEL_RL_TRANSLATE switches translation off. Raises ConfigError if the value means neither on nor
    off."""
    value = os.environ.get(VARIABLE, "").lower()
    if value not in (*OFF, *ON):
        raise ConfigError(f"{VARIABLE}={os.environ[VARIABLE]}: must be on or off{nearest(value, (*OFF, *ON))}")
    return value in OFF


def is_stale() -> bool:
    """Return whether the C++ headers have changed since the emulator was compiled, for example by `git pull` in an
    editable installation. A translation compiled from the changed headers could corrupt the memory of the emulator."""
    return bool(_sources() != core().SOURCES)


@functools.cache
def _sources() -> str:
    """Return a hash of the emulator's headers."""
    folder = Path(__file__).parent
    content = b"".join(file.read_bytes() for file in sorted(folder.glob("core/**/*.h")) + [folder / "translation.h"])
    return hashlib.sha256(content).hexdigest()


def _compile(
    emulator: "EmulatorCore", file: Path, game: str, rom: str | os.PathLike[str] | None, outlives: bool
) -> None:
    """Compile a translation, unless another process has done so, and load it into the emulator."""
    try:
        with turn(file) as locks:
            if _insert(emulator, file):  # compiled by another process
                logger.info(f"{game} is translated")
                return
            run_compiler(file, game, rom, locks, outlives and not code_cache.is_temporary())
    except (OSError, RuntimeError, ConfigError) as error:
        logger.info(f"{game} is interpreted: its translation cannot be made: {error}")
        return
    if _insert(emulator, file):
        logger.info(f"{game} is translated")
    else:
        logger.info(f"{game} is interpreted: its translation could not be compiled ({file})")


def _insert(emulator: "EmulatorCore", file: Path) -> bool:
    """Load a translation into the emulator if the cached file is complete and only this user could have written it.
    Return whether the translation was loaded."""
    try:
        address = _address(file)
    # The reason why the game is interpreted is logged at the start of the run and after the compilation.
    except ConfigError:
        return False
    if address is not None:
        emulator.insert_translation(address)
    return address is not None


def _address(file: Path) -> int | None:
    """Load a cached translation, and return the address of its function run_translated, or None if the translation is
    not cached or cannot be loaded. Raises ConfigError if other users could write to the cache folder."""
    for content in code_cache.contents(file):
        try:
            return function_in(content)
        except OSError as error:
            logger.info(f"{file.name} cannot be loaded: {error}")
    return None
