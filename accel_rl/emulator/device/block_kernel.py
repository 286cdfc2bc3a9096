"""NVRTC compiles a game's ROM as the kernel `step_blocks` (kernels/blocks.cu) in the background, at the game's first
use.

    | ROM -> blocks of C++ (blocks.py) -> NVRTC -> machine code -> a file of the cache folder -> trial (kernel_trial.py)

The environments' first reset waits for the compiler, so that no kernel is loaded while a CUDA graph is captured. The
kernel `step` plays games that cannot be compiled, or whose trial fails.
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
FEW = 11
"""Up to this number of lanes per warp, the measurement with 4 lanes decides which kernel is used, and otherwise that
with 32 lanes: about sqrt(4 * 32)."""
INDEXED_JUMP = False
"""If true, blocks are chosen by one indexed jump (block_jumps.py) instead of NVRTC's comparisons. Kernels with indexed
jumps have been compiled and checked, but have never run on a GPU."""


class Trial(NamedTuple):
    """The comparison of a game's own kernel with the kernel of all games on a GPU. `milliseconds` [2, 2] are per agent
    step. Rows are for 4 and for 32 environments per warp, and columns for the game's own kernel and the kernel of all
    games. `differs` names the first result in which the kernels differed, or is ""."""

    milliseconds: Sequence[Sequence[float]]
    differs: str = ""

    def prefers_own(self, lanes: int) -> bool:
        """Return whether the game's own kernel was at least as fast with about `lanes` environments per warp. Of the
        measurements with 4 and with 32 environments per warp, the one that is nearer to `lanes` in ratio counts."""
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
    """Start a thread that compiles a game for a GPU and tries the compiled kernel. The result of the returned future is
    None if the game cannot be compiled."""
    result: Future[GameKernel | None] = Future()

    def run() -> None:
        try:
            result.set_result(_from_child(game, gpu))
        except BaseException as error:  # Wait for the error until the environments' first reset, which raises it.
            result.set_exception(error)

    threading.Thread(target=run, name="blocks", daemon=True).start()
    return result


def _from_child(game: str, gpu: int) -> GameKernel | None:
    """Compile and try the kernel in a child process. A process that exits while NVRTC compiles in a thread would crash,
    and a process whose kernel fails can no longer use the GPU."""
    arguments = command("accel_rl.emulator.device.kernel_trial", game, str(gpu), str(os.getpid()))
    child = start(arguments, env=environment(), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
    content = child.communicate()[0]
    return None if child.returncode else unpacked(content)


def packed(kernel: GameKernel) -> bytes:
    """Return a kernel as bytes, which the child process writes to its standard output."""
    return json.dumps(kernel.trial._asdict()).encode() + b"\n" + nvrtc.packed(kernel.compiled)


def unpacked(content: bytes) -> GameKernel:
    trial, _, compiled = content.partition(b"\n")
    return GameKernel(nvrtc.unpacked(compiled), Trial(**json.loads(trial)))


def is_on(translate: bool) -> bool:
    """Return whether games get their own GPU kernels: not if `translate` is false, if ACCEL_RL_TRANSLATE=off, or if the
    C++ headers have changed since the emulator was compiled."""
    return translate and not translation.is_off() and not translation.is_stale()


def compiled(game: str, capability: tuple[int, int]) -> nvrtc.Compiled:
    """Compile a game's kernel, or read it from the cache folder. Raises ConfigError and RunError."""
    program = [Path(__file__).with_name(name).read_bytes() for name in ("blocks.py", "block_jumps.py")]
    content = read_rom(game), cartridge(game), sources(), core().SOURCES, rom_compiler.FRAMES, INDEXED_JUMP, program
    stem = f"emulator-{game}"
    return nvrtc.stored(game, stem, SECONDS, capability, content, lambda sm: compile_blocks(blocks_of(game), sm))


def blocks_of(game: str) -> Blocks:
    """Play some frames to find the instructions of a game's ROM, and return the ROM's blocks. Raises RunError if no
    instructions are found."""
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
    """Return the source files of `step_blocks`, except the game's blocks."""
    return {name: text for name, text in nvrtc.sources().items() if name.endswith(".h") or name == MAIN}
