"""Compile a translated ROM in a child process, and store it in the cache folder.

    | wait for a turn: one process compiles a ROM, and compilers use at most a quarter of the cores
    | play some frames -> C++ of each instruction (translation.h) -> the first compiler that can -> load -> store

While the child process compiles, it holds two lock files (see `turn`). If the parent process ends first, the child ends
too. With `outlives`, the child instead continues at the lowest priority, so that the next start of the program can use
the translated ROM. The child always deletes its temporary files.
"""

import contextlib
import ctypes
import fcntl
import functools
import hashlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from accel_rl.emulator.atari import core
from accel_rl.emulator.games import read_rom
from accel_rl.files import code_cache
from accel_rl.files.durable_files import open_in_place, remove_folder
from accel_rl.machine.hardware import usable_cores
from accel_rl.processes.child import accept_signals, command, environment, start
from accel_rl.processes.process import watch_parent
from accel_rl.text.errors import ConfigError

if TYPE_CHECKING:
    from accel_rl.emulator.atari import EmulatorCore

FLAGS = ("-std=c++17", "-O1", "-w", "-fwrapv", "-ffp-contract=off", "-fPIC", "-shared", "-fvisibility=hidden")
COMPILERS = ("g++", "clang++", "c++")
FRAMES = (600, 20_000)
"""To find a ROM's instructions, 20,000 frames are played. Instructions are recorded in the first 600 frames and in some
later ones. Code that is not reached in these frames is interpreted. Recording only the first 900 frames misses code of
Enduro and Robotank."""
VERSIONS = 2
"""Number of compiled translations of a ROM that are kept, so that two installed versions of accel_rl can be used in
turn."""

LIMIT_S = 300.0  # Time limit of one compilation in seconds
WAIT_S = 3600.0  # Time limit in seconds of the wait for other compilers
RETRY_S = 86_400.0  # After a day, a failed compiler is tried again, because the disk may have been full.
POLL_S = 0.5
NICE, LOWEST = 5, 19
_PROGRAM = """#define TRANSLATED "{source}"
#include "core/fast/frame.h"
#define EXPORTED extern "C" __attribute__((visibility("default")))
EXPORTED accel::FastEnd run_translated(accel::FastConsole& console) {{ return accel::run_fast(console); }}
EXPORTED unsigned layout() {{ return accel::layout_of_translations(); }}
"""


class Compiler(NamedTuple):
    """A C++ compiler: its path, and the first line of the output of `--version`."""

    path: str
    version: str


@functools.cache
def compilers() -> tuple[Compiler, ...]:
    """Return the installed C++ compilers without duplicates. The compiler of the environment variable CXX is the
    first."""
    result: dict[str, Compiler] = {}
    for name in (os.environ.get("CXX", ""), *COMPILERS):
        if not name or not (path := shutil.which(name)) or (real := os.path.realpath(path)) in result:
            continue
        with contextlib.suppress(OSError, subprocess.SubprocessError):
            done = subprocess.run([path, "--version"], capture_output=True, text=True, timeout=10, check=True)
            result[real] = Compiler(path, done.stdout.partition("\n")[0])
    return tuple(result.values())


def untried(file: Path) -> list[Compiler]:
    """Return the compilers that have not failed in the last RETRY_S seconds to compile the translation `file`."""
    result = []
    for compiler in compilers():
        age_s = None
        with contextlib.suppress(OSError):
            age_s = time.time() - file.with_name(_failure(file, compiler)).stat().st_mtime
        if age_s is None or not 0 <= age_s < RETRY_S:
            result.append(compiler)
    return result


def _failure(file: Path, compiler: Compiler) -> str:
    """Return the name of the file that records that a compiler has failed to compile a translation."""
    return f"{file.stem}.{hashlib.sha256(repr(compiler).encode()).hexdigest()[:12]}.failed"


def function_in(content: bytes) -> int:
    """Load a compiled translation, and return the address of its function run_translated. Raises OSError if this
    process cannot load the translation."""
    try:
        library = code_cache.library(content)
        if library.layout() != core().LAYOUT:
            raise OSError("it was compiled for another layout of the console")
        return ctypes.cast(library.run_translated, ctypes.c_void_p).value or 0
    except AttributeError as error:
        raise OSError(f"it is no translation: {error}") from error


@contextlib.contextmanager
def turn(file: Path) -> Iterator[tuple[int, ...]]:
    """Wait until no other process compiles the translation `file`, and until fewer compilers than the limit are
    running. Yield the file descriptors of two locks, which are held until all processes have closed their copies of the
    descriptors."""
    deadline = time.monotonic() + WAIT_S
    with (
        code_cache.opened(file.parent, create=True) as cache,
        held([cache / f"{file.stem}.lock"], deadline) as first,
        held(turns(cache), deadline) as second,
    ):
        yield first, second


def turns(folder: Path) -> list[Path]:
    """Return the lock files, of which each running compiler holds one, so that compilers use at most a quarter of the
    cores."""
    return [folder / f"compiler-{i}.lock" for i in range(max(1, len(usable_cores()) // 4))]


@contextlib.contextmanager
def held(files: list[Path], deadline: float) -> Iterator[int]:
    """Lock one of several files, and yield its file descriptor. Raises TimeoutError if other processes hold all locks
    until the deadline, and ConfigError if a lock file is a link."""
    flags = os.O_WRONLY | os.O_CREAT
    with contextlib.ExitStack() as stack:
        locks = [stack.enter_context(open(open_in_place(file, flags, 0o600), "wb")) for file in files]
        while time.monotonic() < deadline:
            for lock in locks:
                with contextlib.suppress(BlockingIOError):
                    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    yield lock.fileno()
                    return
            time.sleep(POLL_S)
        raise TimeoutError(f"other compilers have run for {WAIT_S:g} s")


def run_compiler(
    file: Path, game: str, rom: str | os.PathLike[str] | None, locks: tuple[int, ...], outlives: bool
) -> None:
    """Translate and compile a ROM in a child process, which inherits `locks`, and print the child's errors. If
    `outlives` is true, the child continues after the end of this process."""
    arguments = [game, os.fspath(rom or ""), os.fspath(file), str(os.getpid()), "outlives" if outlives else ""]
    # The child does not inherit stderr: a program that reads this process's stderr would wait for the child.
    streams = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE}
    child = start(command(__name__, *arguments), env=environment(), pass_fds=locks, **streams)
    try:
        errors = child.communicate(timeout=LIMIT_S)[1]
    except subprocess.TimeoutExpired:
        child.terminate()
        errors = child.communicate()[1]
    if errors:
        print(errors.decode(errors="replace"), end="", file=sys.stderr)


def compile_rom(emulator: "EmulatorCore", file: Path) -> None:
    """Play some frames to find the ROM's instructions, translate the ROM, and store the compiled translation
    atomically. If a compiler fails, its failure is recorded, and the next compiler is tried. Raises OSError if all
    compilers fail, and ConfigError if other users could write to the cache folder."""
    with code_cache.opened(file.parent, create=True) as cache:
        for earlier in cache.glob(f"{file.stem}-*"):  # Remove files of killed compilations.
            if earlier.is_dir():
                remove_folder(earlier)
            else:
                earlier.unlink()
        with tempfile.TemporaryDirectory(dir=cache, prefix=f"{file.stem}-") as folder:
            source, program, library = (Path(folder) / name for name in ("rom.inc", "rom.cpp", "rom.so"))
            source.write_text(emulator.translated(*FRAMES))
            program.write_text(_PROGRAM.format(source=source))
            failures: list[str] = []
            for compiler in untried(file):
                if failure := _failure_of(compiler, program, library):
                    (cache / _failure(file, compiler)).write_text(failure)
                    failures.append(failure)
                    continue
                code_cache.write_in(cache, file, library.read_bytes())
                _remove_older(cache, file)
                if failures:
                    reason = "; ".join(failures)
                    print(f"accel-rl: {compiler.path} compiles the game, after {reason}", file=sys.stderr)
                return
    raise OSError("; ".join(failures) or "every compiler has failed")


def _failure_of(compiler: Compiler, program: Path, library: Path) -> str:
    """Compile a C++ program to a library. Return the error in one line, or "" if the compilation succeeded."""
    arguments = [compiler.path, *FLAGS, f"-I{Path(__file__).parent}", str(program), "-o", str(library)]
    try:
        # The compiler's temporary files go to a folder that is removed even if the compiler is killed.
        variables = {**os.environ, "TMPDIR": str(program.parent)}
        subprocess.run(arguments, check=True, stdin=subprocess.DEVNULL, capture_output=True, env=variables)
        function_in(library.read_bytes())
    except (OSError, subprocess.CalledProcessError) as error:
        detail = getattr(error, "stderr", None) or b""
        reason = " ".join(detail.decode(errors="replace").split())[-300:] or str(error)
        return f"{compiler.path} ({compiler.version}): {reason}"
    return ""


def _remove_older(cache: Path, file: Path) -> None:
    """Remove all translations of the ROM except the newest VERSIONS, and with them their lock files and records of
    failures."""
    rom = file.stem.rpartition("-")[0]
    for older in sorted(cache.glob(f"{rom}-*.so"), key=lambda path: path.stat().st_mtime_ns)[:-VERSIONS]:
        for path in cache.glob(f"{older.stem}.*"):
            path.unlink(missing_ok=True)


def _end(*_: object) -> None:
    """End this process and its child processes after a signal. The exit of this process also removes its temporary
    folder."""
    for number in (signal.SIGTERM, signal.SIGALRM):
        signal.signal(number, signal.SIG_IGN)
    os.killpg(0, signal.SIGTERM)
    sys.exit(1)


def _yield_cores(*_: object) -> None:
    os.setpriority(os.PRIO_PGRP, 0, LOWEST)


def main(game: str, rom: str, file: str, parent_pid: str, outlives: str) -> int:
    """Translate and compile a game in this process, which has low priority. Returns the exit code."""
    os.setsid()
    signal.signal(signal.SIGTERM, _end)
    signal.signal(signal.SIGALRM, _end)
    signal.signal(signal.SIGUSR1, _yield_cores)
    os.nice(NICE)
    if not watch_parent(int(parent_pid), signal.SIGUSR1 if outlives else signal.SIGTERM):
        if not outlives:
            return 0
        _yield_cores()
    signal.alarm(int(LIMIT_S))  # The parent process has the same time limit, but may have ended.
    accept_signals()
    from accel_rl.emulator.atari import AtariEmulator

    # A BrokenPipeError means that the parent process, which prints the errors, has ended.
    with contextlib.suppress(BrokenPipeError):
        try:
            compile_rom(AtariEmulator(game, rom=read_rom(game, rom or None))._emulator, Path(file))
        except (OSError, ConfigError) as error:
            print(f"accel-rl: {game} cannot be translated: {error}", file=sys.stderr)
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
