"""A game's ROM is translated to C++ and compiled when the game is first played. The translated game computes the same
frames faster.

    | ROM -> C++ of each instruction (translation.h) -> compiler -> a file of the cache folder -> the game's emulators

The compiler runs in the background, on at most a quarter of the cores. The emulator interprets the ROM until
compilation is complete, and always if there is neither a cached translation nor a compiler. The cached file's name
contains a hash of the ROM, the emulator's sources, the machine and the flags, so that a translation of a container
image's build is played where no compiler is installed. Because a translation is derived from the ROM, accel_rl is
distributed without translations.
"""

import contextlib
import ctypes
import fcntl
import functools
import hashlib
import logging
import os
import platform
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from accel_rl.emulator.atari import core
from accel_rl.emulator.games import cartridge, read_rom
from accel_rl.files import code_cache
from accel_rl.files.code_cache import cache_folder
from accel_rl.files.durable_files import open_in_place, remove_folder
from accel_rl.machine.hardware import usable_cores
from accel_rl.processes.child import accept_signals, command, environment, start
from accel_rl.processes.process import die_with_parent
from accel_rl.text.errors import ConfigError, nearest

if TYPE_CHECKING:
    from accel_rl.emulator.atari import EmulatorCore

logger = logging.getLogger(__name__)

VARIABLE = "ACCEL_RL_TRANSLATE"
"""With the environment variable ACCEL_RL_TRANSLATE=off (or 0, false, no), no game is translated."""
OFF, ON = ("off", "0", "false", "no"), ("", "on", "1", "true", "yes", "auto")

FLAGS = ("-std=c++17", "-O1", "-w", "-fwrapv", "-ffp-contract=off", "-fPIC", "-shared", "-fvisibility=hidden")
COMPILERS = ("g++", "clang++", "c++")
FRAMES = 900
"""Number of frames that are played to find the ROM's instructions. Code that these frames do not reach is
interpreted."""

LIMIT_S = 300.0  # Time limit of one compilation
WAIT_S = 3600.0  # Time limit of the wait for other compilers
POLL_S = 0.5
NICE = 5
_PROGRAM = """#define TRANSLATED "{source}"
#include "core/fast/frame.h"
#define EXPORTED extern "C" __attribute__((visibility("default")))
EXPORTED accel::FastEnd run_translated(accel::FastConsole& console) {{ return accel::run_fast(console); }}
EXPORTED unsigned layout() {{ return accel::layout_of_translations(); }}
"""

_begun: set[Path] = set()


def begin(emulator: "EmulatorCore", game: str, rom: str | os.PathLike[str] | None = None) -> None:
    """Let an emulator of the compiled core, and all others with the same ROM, play the translated game. If the
    translation is cached, they play it from now on, and otherwise as soon as it is compiled in the background. `rom` is
    the path of another ROM than ale-py's."""
    if emulator.is_translated or (file := translation_file(game, rom)) is None:
        return
    if not _insert(emulator, file) and file not in _begun and compiler() is not None:
        _begun.add(file)
        thread = threading.Thread(target=_compile, args=(emulator, file, game, rom), daemon=True, name="translate")
        try:
            thread.start()
        except RuntimeError as error:  # The process cannot start another thread.
            logger.info(f"{game} is interpreted: {error}")


def translate(game: str, rom: str | os.PathLike[str] | None = None) -> bool:
    """Translate a game now, unless its translation is cached. Return whether emulators can play the translated game.
    Raises ConfigError if the game or its ROM is unknown, or if others could write to the cache folder."""
    if (file := translation_file(game, rom)) is None:
        return False
    if code_cache.read(file) is None and compiler() is not None:
        with _turn(file):
            if code_cache.read(file) is None:  # No other process has compiled it meanwhile.
                _run_compiler(file, game, rom)
    return code_cache.read(file) is not None


def translation_file(game: str, rom: str | os.PathLike[str] | None = None) -> Path | None:
    """Return the path of a game's translation in the cache folder; the file may not exist yet. Return None if games are
    not translated because of ACCEL_RL_TRANSLATE, or because the emulator was compiled from other sources."""
    if is_off() or is_stale():
        return None
    content = repr((read_rom(game, rom), cartridge(game), _sources(), platform.machine(), FLAGS, FRAMES))
    return cache_folder() / f"rom-{game}-{hashlib.sha256(content.encode()).hexdigest()[:32]}.so"


def how_played(game: str) -> str:
    """Return a text about whether emulators play a translated game from the first step, or "" if games are not
    translated."""
    if is_off():
        return ""
    if is_stale():
        why = (
            "the emulator was compiled from other sources than those in its folder; compile it again: pip install -e ."
        )
        return f"{game} is interpreted, because {why}"
    file = translation_file(game)
    assert file is not None
    if reason := code_cache.refusal(file.parent):
        return f"{game} is interpreted, because {reason}"
    if code_cache.read(file) is not None:
        return f"{game} is translated"
    if compiler() is None:
        return f"{game} is interpreted, because no C++ compiler is installed (g++ or clang++)"
    return f"{game} is interpreted until it is translated"


def is_off() -> bool:
    """Return whether ACCEL_RL_TRANSLATE switches translation off. Raises ConfigError for a value that is neither on nor
    off."""
    value = os.environ.get(VARIABLE, "").lower()
    if value not in (*OFF, *ON):
        raise ConfigError(f"{VARIABLE}={os.environ[VARIABLE]}: must be on or off{nearest(value, (*OFF, *ON))}")
    return value in OFF


def is_stale() -> bool:
    """Return whether the headers have changed since the emulator was compiled, for example by `git pull` in an editable
    installation. A translation that is compiled from them could damage the memory of the compiled emulator."""
    return bool(_sources() != core().SOURCES)


@functools.cache
def compiler() -> tuple[str, str] | None:
    """Return the path and the version of the C++ compiler ($CXX, or the first of `COMPILERS`), or None."""
    for name in (os.environ.get("CXX", ""), *COMPILERS):
        if not name or not (path := shutil.which(name)):
            continue
        with contextlib.suppress(OSError, subprocess.SubprocessError):
            done = subprocess.run([path, "--version"], capture_output=True, text=True, timeout=10, check=True)
            return path, done.stdout.partition("\n")[0]
    return None


@functools.cache
def _sources() -> str:
    """Return a hash of the emulator's headers."""
    folder = Path(__file__).parent
    content = b"".join(file.read_bytes() for file in sorted(folder.glob("core/**/*.h")) + [folder / "translation.h"])
    return hashlib.sha256(content).hexdigest()


def _compile(emulator: "EmulatorCore", file: Path, game: str, rom: str | os.PathLike[str] | None) -> None:
    """Compile a translation, unless another process has compiled it, and load the translation into the emulator."""
    try:
        with _turn(file):
            if _insert(emulator, file):  # Another process has compiled it.
                logger.info(f"{game} is translated")
                return
            _run_compiler(file, game, rom)
    except (OSError, RuntimeError, ConfigError) as error:
        logger.info(f"{game} is interpreted: its translation cannot be made: {error}")
        return
    if _insert(emulator, file):
        logger.info(f"{game} is translated")
    else:
        logger.info(f"{game} is interpreted: its translation could not be compiled ({file})")


@contextlib.contextmanager
def _turn(file: Path) -> Iterator[None]:
    """Wait until no other process compiles this translation, and the machine has a core for another compiler."""
    deadline = time.monotonic() + WAIT_S
    with (
        code_cache.opened(file.parent, create=True) as cache,
        _held([cache / f"{file.stem}.lock"], deadline),
        _held(_turns(cache), deadline),
    ):
        yield


def _turns(folder: Path) -> list[Path]:
    """Return lock files. Every running compiler holds one of them, so that a hundred games do not run a hundred
    compilers."""
    return [folder / f"compiler-{i}.lock" for i in range(max(1, len(usable_cores()) // 4))]


@contextlib.contextmanager
def _held(files: list[Path], deadline: float) -> Iterator[None]:
    """Hold one of several lock files. Raises TimeoutError if all are held by others until the deadline, and ConfigError
    if a lock file is a link."""
    flags = os.O_WRONLY | os.O_CREAT
    with contextlib.ExitStack() as stack:
        locks = [stack.enter_context(open(open_in_place(file, flags, 0o600), "wb")) for file in files]
        while time.monotonic() < deadline:
            for lock in locks:
                with contextlib.suppress(BlockingIOError):
                    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    yield
                    return
            time.sleep(POLL_S)
        raise TimeoutError(f"other compilers have run for {WAIT_S:g} s")


def _run_compiler(file: Path, game: str, rom: str | os.PathLike[str] | None) -> None:
    """Translate and compile in a child process."""
    arguments = [game, os.fspath(rom or ""), os.fspath(file), str(os.getpid())]
    child = start(command(__name__, *arguments), env=environment(), stdin=subprocess.DEVNULL)
    try:
        child.wait(LIMIT_S)
    except subprocess.TimeoutExpired:
        child.terminate()
        child.wait()


def _insert(emulator: "EmulatorCore", file: Path) -> bool:
    """Load a translation into the emulator if the file is complete and only this user could have written it. Return
    whether it was loaded."""
    try:
        if (content := code_cache.read(file)) is None:
            return False
        library = code_cache.library(content)
        if library.layout() != core().LAYOUT:
            raise OSError("it was compiled for another layout of the console")
        function = library.run_translated
    except ConfigError:  # The line about the start of a run has the reason, and so has that about the compilation.
        return False
    except (OSError, AttributeError) as error:
        logger.info(f"{file} cannot be loaded: {error}")
        return False
    emulator.insert_translation(ctypes.cast(function, ctypes.c_void_p).value)
    return True


def compile_rom(emulator: "EmulatorCore", file: Path) -> None:
    """Play some frames to find the ROM's instructions, translate the ROM, and store the compiled translation
    atomically. Raises OSError or CalledProcessError, and ConfigError if others could write to the cache folder."""
    cxx = compiler()
    assert cxx is not None, "no compiler"
    with code_cache.opened(file.parent, create=True) as cache:
        for earlier in cache.glob(f"{file.stem}-*"):  # Remove the files of compilations that were killed.
            if earlier.is_dir():
                remove_folder(earlier)
            else:
                earlier.unlink()
        with tempfile.TemporaryDirectory(dir=cache, prefix=f"{file.stem}-") as folder:
            source, program, library = (Path(folder) / name for name in ("rom.inc", "rom.cpp", "rom.so"))
            source.write_text(emulator.translated(FRAMES))
            program.write_text(_PROGRAM.format(source=source))
            arguments = [cxx[0], *FLAGS, f"-I{Path(__file__).parent}", str(program), "-o", str(library)]
            subprocess.run(arguments, check=True, stdin=subprocess.DEVNULL, capture_output=True)
            content = library.read_bytes()
    if not hasattr(code_cache.library(content), "run_translated"):
        raise OSError(f"{cxx[0]} has compiled something else")
    code_cache.write(file, content)


def main(game: str, rom: str, file: str, parent_pid: str) -> int:
    """Translate a game in a child process of low priority."""
    os.setsid()
    # SIGTERM also ends the processes that the compiler started.
    signal.signal(signal.SIGTERM, lambda *_: os.killpg(0, signal.SIGKILL))
    die_with_parent(int(parent_pid), signal.SIGTERM)
    accept_signals()
    os.nice(NICE)
    from accel_rl.emulator.atari import AtariEmulator

    try:
        compile_rom(AtariEmulator(game, rom=read_rom(game, rom or None))._emulator, Path(file))
    except (OSError, ConfigError, subprocess.CalledProcessError) as error:
        detail = getattr(error, "stderr", None) or b""
        print(f"accel-rl: {game} cannot be translated: {error} {detail.decode()[-300:]}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
