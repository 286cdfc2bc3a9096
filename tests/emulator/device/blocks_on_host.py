"""Compares a game's compiled blocks (device/blocks.py) with the kernel for all games, and counts a warp's operations.

    python -m tests.emulator.device.blocks_on_host [GAMES] [--steps 300] [--lanes 4]

Prints one JSON line per game, with counts per frame of a warp:

    dispatches, issued   blocks, and 6507 instructions of the lane that executes most of them in a block
    efficiency           instructions of all lanes / (lanes x issued)
    slow                 dispatches of the plain interpreter
    stages               iterations of the staged loop, which `dispatches` replace

The compiled blocks and the kernel for all games play environments with the same 32 seeds. After each frame, the
console, the log of TIA writes, the reward and the picture are compared, and after each step all outputs and states.
"""

import argparse
import ctypes
import json
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch

from accel_rl.emulator.atari import core
from accel_rl.emulator.device.block_kernel import blocks_of
from accel_rl.emulator.device.blocks import Blocks
from accel_rl.emulator.device.envs import DeviceEnvs, DeviceStep
from accel_rl.emulator.device.step import step_arguments
from accel_rl.envs.atari_games import ATARI_57
from accel_rl.envs.make import make_spec
from accel_rl.samplers.device_games import make_device_game
from tests.env_settings import env_of

HERE = Path(__file__).resolve().parent
FLAGS = ("-std=c++17", "-O1", "-w", "-fwrapv", "-ffp-contract=off", "-fPIC", "-shared", "-Wl,-Bsymbolic")
ENVS, STICKY = 32, 0.25


class Counts(ctypes.Structure):
    """The struct `Counts` of blocks_on_host.cpp."""

    _fields_ = [
        (name, ctypes.c_uint64)
        for name in (
            "frames", "dispatches", "issued", "instructions", "slow_dispatches", "slow", "stages", "writes",
            "compared", "differing",
        )
    ]  # fmt: skip


@dataclass
class Played:
    game: str
    blocks: Blocks
    counts: Counts
    lanes: int  # number of a warp's lanes that have an environment
    differs: list[str] = field(default_factory=list)
    ended: int = 0
    plain: int = 0  # agent steps that the emulator's plain core played

    def summary(self) -> dict[str, Any]:
        c, frames = self.counts, max(1, self.counts.frames)
        return {
            "game": self.game,
            "blocks": len(self.blocks.starts),
            "instructions": len(self.blocks.instructions),
            "dispatches": round(c.dispatches / frames, 1),
            "issued": round(c.issued / frames, 1),
            "efficiency": round(c.instructions / max(1, self.lanes * c.issued), 3),
            "slow": round(c.slow_dispatches / frames, 2),
            "slow_lanes": round(c.slow / frames, 2),
            "stages": round(c.stages / frames, 1),
            "compared": c.compared,
            "differing": c.differing + len(self.differs),
            "ended": self.ended,
            "plain": self.plain,
        }


def compiled(blocks: Blocks, folder: Path, sources: Path = HERE) -> ctypes.CDLL:
    """Compile a game's blocks for the CPU. `sources` is this folder, or a copy of this folder beside a changed copy of
    accel_rl."""
    text, library = folder / "blocks.inc", folder / "blocks.so"
    text.write_text(blocks.text)
    command = ["g++", *FLAGS, f'-DBLOCKS="{text}"', str(sources / "blocks_on_host.cpp"), "-o", str(library)]
    subprocess.run(command, check=True)
    return ctypes.CDLL(str(library))


def play(game: str, library: ctypes.CDLL, blocks: Blocks, steps: int, warmup: int = 0, lanes: int = 32) -> Played:
    """Play `steps` agent steps of 32 environments by compiled blocks and by the kernel for all games, or up to the
    first difference. Only the first `lanes` lanes of a warp have an environment. The operations of the first `warmup`
    steps are not counted."""
    env = env_of(game=game, frame="84x84", randomness="counter", repeat_action_probability=STICKY)
    device_game, actions = make_device_game(env, True, True, "cpu"), make_spec(env, training=True).n_actions
    sides = [DeviceEnvs(device_game, list(range(1, ENVS + 1))) for _ in range(2)]
    outs = [DeviceStep.empty(ENVS, device_game) for _ in sides]
    for side, out in zip(sides, outs, strict=True):
        side.begin(out)
    played, rng = Played(game, blocks, Counts(), lanes), np.random.default_rng(5)
    delays = torch.arange(ENVS) * min(50, steps // 2) // ENVS  # by environment
    for t in range(steps):
        if t == warmup:
            played.counts = Counts(compared=played.counts.compared, differing=played.counts.differing)
        action = torch.from_numpy(rng.integers(0, actions, ENVS)).masked_fill(delays > t, -1)
        given = [
            bytes(step_arguments(action, side._state, list(out), side._tables, side._rules, STICKY))
            for side, out in zip(sides, outs, strict=True)
        ]
        library.play_both(*given, ctypes.byref(played.counts), lanes)
        for arguments in given:
            core().device.draw(arguments)
            core().device.finish(arguments)
        played.plain += int(sides[0].code.count_nonzero())
        for arguments in given:
            core().device.begin(arguments, False)
        _check(played, f"step {t}", sides, outs)
        if played.differs or played.counts.differing:
            break
    return played


def _check(played: Played, when: str, sides: Sequence[DeviceEnvs], outs: Sequence[DeviceStep]) -> None:
    ended = outs[0].ended
    played.ended += int(ended.sum())
    for name, expected, result in zip(DeviceStep._fields, *outs, strict=True):
        rows = ended if name == "final_frame" else slice(None)
        if not torch.equal(expected[rows], result[rows]):
            played.differs.append(f"{when}: {name}")
    if not torch.equal(sides[0].code, sides[1].code):
        played.differs.append(f"{when}: code")
    if sides[0].get_state() != sides[1].get_state():
        played.differs.append(f"{when}: state")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("games", nargs="*", default=ATARI_57)
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--warmup", type=int, default=100, help="steps that are compared, but not counted")
    parser.add_argument("--lanes", type=int, default=32)
    wanted, failed = parser.parse_args(), False
    torch.set_num_threads(1)
    for game in wanted.games:
        blocks = blocks_of(game)
        with tempfile.TemporaryDirectory() as folder:
            played = play(game, compiled(blocks, Path(folder)), blocks, wanted.steps, wanted.warmup, wanted.lanes)
        print(json.dumps(played.summary()), *played.differs[:4], flush=True)
        failed |= played.summary()["differing"] > 0
    sys.exit(failed)


if __name__ == "__main__":
    main()
