"""NVRTC compiles a game's ROM as the kernel `step_blocks` (kernels/blocks.cu) in the background, at the game's first
use.

    | ROM -> blocks of C++ (blocks.py) -> NVRTC -> machine code -> a file of the cache folder -> trial (kernel_trial.py)

The first reset waits for the compiler, so that no capture of a CUDA graph loads a kernel. If a game cannot be compiled,
or if its trial fails, the kernel `step` plays it.
"""

import json
import os
import subprocess
import threading
from collections.abc import Sequence
from concurrent.futures import Future
from functools import cache
from pathlib import Path
from typing import NamedTuple

from accel_rl.emulator import rom_compiler, translation
from accel_rl.emulator.atari import core
from accel_rl.emulator.device import block_jumps, nvrtc
from accel_rl.emulator.device.blocks import Blocks
from accel_rl.emulator.games import cartridge, read_rom
from accel_rl.processes.child import command, environment, start
from accel_rl.text.errors import RunError

KERNEL, MAIN, TEXT = "step_blocks", "device/kernels/blocks.cu", "blocks.inc"
SECONDS = 20
FEW = 11  # The square root of 4 times 32
INDEXED_JUMP = False
"""Whether a block is chosen by one indexed jump (block_jumps.py) instead of NVRTC's search among the cases. Such code
has been compiled and checked, but has never run on a GPU."""


class Trial(NamedTuple):
    """Milliseconds of an agent step on a GPU, by the game's own kernel and by that of all games: with few environments
    per warp, and with the most. `differs` is what was not equal, or ""."""

    milliseconds: Sequence[Sequence[float]]
    differs: str = ""

    def prefers_own(self, lanes: int) -> bool:
        """Return whether the game's own kernel plays warps with so many environments. The nearer number counts that
        has been tried (of 4 and 32, by ratio)."""
        if self.differs:
            return False
        of_game, of_all = self.milliseconds[lanes > FEW]
        return of_game <= of_all

    def __str__(self) -> str:
        if self.differs:
            return f"its own kernel is not used, because it differs from that of all games ({self.differs})"
        (few, few_all), (most, most_all) = self.milliseconds
        return (
            f"{few} and {most} ms a step by its own kernel, {few_all} and {most_all} ms by that of all games (stored)"
        )


class GameKernel(NamedTuple):
    compiled: nvrtc.Compiled
    trial: Trial


@cache
def begin(game: str, gpu: int) -> Future[GameKernel | None]:
    """Begin to compile a game for a GPU and to try its kernel. The result is None if this is impossible."""
    result: Future[GameKernel | None] = Future()

    def run() -> None:
        try:
            result.set_result(_from_child(game, gpu))
        except BaseException as error:  # The first reset raises it.
            result.set_exception(error)

    threading.Thread(target=run, name="blocks", daemon=True).start()
    return result


def _from_child(game: str, gpu: int) -> GameKernel | None:
    """Compile in a child process, because a process that ends while its thread compiles would crash in NVRTC, and a
    kernel that fails leaves its process without a GPU."""
    arguments = command("accel_rl.emulator.device.kernel_trial", game, str(gpu), str(os.getpid()))
    child = start(arguments, env=environment(), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
    content = child.communicate()[0]
    return None if child.returncode else unpacked(content)


def packed(kernel: GameKernel) -> bytes:
    """Return what the child process writes to its standard output."""
    return json.dumps(kernel.trial._asdict()).encode() + b"\n" + nvrtc.packed(kernel.compiled)


def unpacked(content: bytes) -> GameKernel:
    trial, _, compiled = content.partition(b"\n")
    return GameKernel(nvrtc.unpacked(compiled), Trial(**json.loads(trial)))


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
