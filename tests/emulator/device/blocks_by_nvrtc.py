"""The size and the registers of each game's kernel, as NVRTC compiles it for a GPU.

    python -m tests.emulator.device.blocks_by_nvrtc [GAMES] [--architecture sm_90]

Prints one JSON line per game: CPU seconds of the compilation, machine instructions (of 16 bytes), registers per thread,
and spilled bytes.
"""

import argparse
import json
import struct
import time
from typing import Any

from accel_rl.emulator.device import nvrtc
from accel_rl.emulator.device.block_kernel import KERNEL, blocks_of, compile_blocks
from accel_rl.envs.atari_games import ATARI_57


def code_sizes(cubin: bytes) -> dict[str, int]:
    """Return the size in bytes of each code section of an ELF file."""
    start, size, count, names = struct.unpack_from("<Q10xHHH", cubin, 40)
    headers = [struct.unpack_from("<IIQQQQ", cubin, start + n * size) for n in range(count)]
    text = headers[names][4]
    result = {}
    for name, _, _, _, _, length in headers:
        label = cubin[text + name : cubin.index(b"\0", text + name)].decode()
        if label.startswith(".text."):
            result[label.removeprefix(".text.")] = length
    return result


def measured(game: str, architecture: str = "sm_90") -> dict[str, Any]:
    blocks = blocks_of(game)
    begun = time.process_time()
    compiled = compile_blocks(blocks, architecture)
    seconds = time.process_time() - begun
    needs = nvrtc.parse_log(compiled.log)[KERNEL]
    return {
        "game": game,
        "seconds": round(seconds, 1),
        "blocks": len(blocks.starts),
        "instructions": len(blocks.instructions),
        "sass": sum(code_sizes(compiled.code).values()) // 16,
        "registers": needs.registers,
        "stack": needs.stack_bytes,
        "spill_stores": needs.spill_store_bytes,
        "spill_loads": needs.spill_load_bytes,
        "warnings": compiled.log.count("warning"),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("games", nargs="*", default=ATARI_57)
    parser.add_argument("--architecture", default="sm_90")
    wanted = parser.parse_args()
    for game in wanted.games:
        print(json.dumps(measured(game, wanted.architecture)), flush=True)


if __name__ == "__main__":
    main()
