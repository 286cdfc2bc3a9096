"""NVRTC compiles a game's ROM as the kernel `step_blocks` (kernels/blocks.cu) in the background, at the game's first
use.

    | ROM -> blocks of C++ (blocks.py) -> NVRTC -> machine code -> a file of the cache folder

The first reset waits for the compiler, so that no capture of a CUDA graph loads a kernel. If a game cannot be compiled,
the kernel `step` plays it.
"""

import contextlib
import os
import signal
import subprocess
import sys
import threading
from concurrent.futures import Future
from functools import cache
from pathlib import Path

from accel_rl.emulator import rom_compiler, translation
from accel_rl.emulator.atari import core
from accel_rl.emulator.device import block_jumps, nvrtc
from accel_rl.emulator.device.blocks import Blocks
from accel_rl.emulator.games import cartridge, read_rom
from accel_rl.files.code_cache import cache_folder
from accel_rl.processes.child import accept_signals, command, environment, start
from accel_rl.processes.process import watch_parent
from accel_rl.text.errors import ConfigError, RunError

KERNEL, MAIN, TEXT = "step_blocks", "device/kernels/blocks.cu", "blocks.inc"
SECONDS = 20
INDEXED_JUMP = False
"""Whether a block is chosen by one indexed jump (block_jumps.py) instead of NVRTC's search among the cases. Such code
has been compiled and checked, but has never run on a GPU."""


@cache
def begin(game: str, capability: tuple[int, int]) -> Future[nvrtc.Compiled | None]:
    """Begin to compile a game for a compute capability. The result is None if this is impossible."""
    result: Future[nvrtc.Compiled | None] = Future()

    def run() -> None:
        try:
            result.set_result(_from_child(game, capability))
        except BaseException as error:  # The first reset raises it.
            result.set_exception(error)

    threading.Thread(target=run, name="blocks", daemon=True).start()
    return result


def _from_child(game: str, capability: tuple[int, int]) -> nvrtc.Compiled | None:
    """Compile in a child process, because a process that ends while its thread compiles would crash in NVRTC."""
    arguments = command(__name__, game, *map(str, capability), str(os.getpid()))
    child = start(arguments, env=environment(), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
    content = child.communicate()[0]
    return None if child.returncode else nvrtc.unpacked(content)


def main(game: str, major: str, minor: str, parent_pid: str) -> int:
    """Compile a game, or wait until another process has compiled it, and write the result to the standard output."""
    accept_signals()
    os.nice(rom_compiler.NICE)
    if not watch_parent(int(parent_pid), signal.SIGTERM):
        return 1
    lock = cache_folder() / f"emulator-{game}-{major}{minor}"
    try:
        with contextlib.ExitStack() as stack:
            with contextlib.suppress(OSError, ConfigError):  # Without a cache, each process compiles.
                stack.enter_context(rom_compiler.turn(lock))
            result = compiled(game, (int(major), int(minor)))
    except (ConfigError, RunError, OSError) as error:
        print(f"{game} is interpreted on the GPU: {error}", file=sys.stderr)
        return 1
    sys.stdout.buffer.write(nvrtc.packed(result))
    return 0


def is_on(translate: bool) -> bool:
    """Return whether games are compiled for GPUs. ACCEL_RL_TRANSLATE=off and an emulator that was compiled from other
    sources (emulator/translation.py) also prevent it."""
    return translate and not translation.is_off() and not translation.is_stale()


def compiled(game: str, capability: tuple[int, int]) -> nvrtc.Compiled:
    """Compile a game's kernel, or read it from the cache folder. Raises ConfigError and RunError."""
    program = [Path(__file__).with_name(name).read_bytes() for name in ("blocks.py", "block_jumps.py")]
    content = read_rom(game), cartridge(game), sources(), core().SOURCES, rom_compiler.FRAMES, INDEXED_JUMP, program
    stem = f"emulator-{game}"
    return nvrtc.stored(game, stem, SECONDS, capability, content, lambda sm: compile_blocks(blocks_of(game), sm))


def blocks_of(game: str) -> Blocks:
    """Return the blocks of a game's ROM, after some frames that find its instructions. Raises RunError if there are
    none."""
    from accel_rl.emulator.atari import AtariEmulator

    result = Blocks(AtariEmulator(game)._emulator.translated(*rom_compiler.FRAMES), cartridge(game))
    if not result.starts:
        raise RunError(f"no instructions of {game}'s ROM are translated")
    return result


def compile_blocks(game: Blocks, architecture: str) -> nvrtc.Compiled:
    texts = sources() | {TEXT: game.text}
    if INDEXED_JUMP and architecture.startswith("sm_"):
        return block_jumps.compile_with_jump(texts, MAIN, architecture)
    return nvrtc.compile_sources(texts, MAIN, architecture)


def sources() -> dict[str, str]:
    """Return the texts of `step_blocks`, without the ROM's."""
    return {name: text for name, text in nvrtc.sources().items() if name.endswith(".h") or name == MAIN}


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
