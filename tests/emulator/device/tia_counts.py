"""Counts, on the CPU, the operations in which a GPU's warp applies TIA writes and draws pictures, by game.

    python -m tests.emulator.device.tia_counts [--games pong,breakout] [--after 400] [--steps 15] [--lanes 4]

| turn     all lanes apply a write each            case     a turn, and once more for each of: HMOVE, RESxx, RESMPx
| search   collisions of all lanes that need them  compose, flush    colours of pixels, pixels

Counts with the prefix `lane_` are means over the lanes of a warp. The counts of the kernel `step` are per warp and
frame. The counts of the kernels `rows` and `draw` are per picture.
"""

import argparse
import ctypes
import json
import subprocess
import tempfile
from pathlib import Path

import numpy as np

from accel_rl.emulator.env_core import make_env_core
from accel_rl.emulator.games import games
from accel_rl.envs.atari_games import ATARI_57
from accel_rl.envs.colors import luminance
from tests.emulator.device.compare import HostEnvs, make_starts
from tests.emulator.device.test_cuda_on_cpu import copied, plant

ENVS, TIMERS, NOOPS = 32, 5, 31
STEP = ("settles", "turns", "cases", "lane_turns", "searches", "lane_searches")
DRAW = (
    "rows", "recorded", "rows_turns", "lane_rows_turns", "bands", "draw_turns", "lane_draw_turns", "composes",
    "lane_composes", "flushes",
)  # fmt: skip
# (file of the folder kernels, a text in the file, statement that is inserted after the text to count an operation)
CALLS = [
    ("settle.h", "u32 count, u32 turns, i32 until) {", "traces.emplace_back();"),
    ("settle.h", "HD void search() {", "trace(PAINTS);"),
    ("settle.h", "else if (open && changes && !clears) return true;", "trace(w.kind);"),
    ("rows.h", "if (w.until > settled) settled = w.until;", "trace(w.kind);"),
    ("draw.h", "HD void compose() {", "trace(PAINTS);"),
    ("draw.h", "HD void flush() {", "if (composed_ < WIDTH) trace(PAINTS + 1);"),
    ("draw.h", "if (colours && composed_ > flushed_) return FLUSHES;", "trace(w.kind);"),
]


def library(folder: Path) -> ctypes.CDLL:
    """Compile the CPU build of the kernels with the inserted calls."""
    sources = copied(folder)
    for file, text, call in CALLS:
        plant(folder, f"device/kernels/{file}", text, f"{text} {call}")
    program = folder / "tia_counts.so"
    flags = ["-std=c++17", "-O2", "-ffp-contract=off", "-shared", "-fPIC"]
    subprocess.run(["g++", *flags, "tia_counts.cpp", "-o", str(program)], cwd=sources, check=True)
    return ctypes.CDLL(str(program))


def counted(counter: ctypes.CDLL, game: str, after: int, steps: int, lanes: int = 32) -> dict[str, float]:
    """Play `after` agent steps of 32 environments with random actions, and count the operations of the next `steps`
    agent steps.

    Only the first `lanes` lanes of a warp have an environment.
    """
    envs = HostEnvs(game, range(ENVS), "84x84", 0.25, max_steps=10**6, life_loss=False)
    core = make_env_core(game, "84x84", luminance(210), 4, max_steps=10**6, life_loss=False)
    _, plays, frames = make_starts(core, "84x84", TIMERS, NOOPS)
    envs.set_starts(plays, frames, TIMERS, NOOPS)
    envs.begin(True)
    rng = np.random.default_rng(0)
    names = ("frames", *STEP, "pictures", *DRAW)
    total = (ctypes.c_double * len(names))()
    for t in range(after + steps):
        action = rng.choice(games()[game]["actions"], ENVS)
        if t < after:
            envs.step(action, draws=False)
            envs.begin(False)
            continue
        envs.action[:] = action
        counter.count_step(bytes(envs.arguments), total, lanes)
    count = dict(zip(names, total, strict=True))
    result = {name: count[name] / count["frames"] for name in STEP}
    result |= {name: count[name] / count["pictures"] for name in DRAW}
    return {name: round(value, 2) for name, value in result.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--games", default=",".join(ATARI_57))
    parser.add_argument("--after", type=int, default=400)
    parser.add_argument("--steps", type=int, default=15)
    parser.add_argument("--lanes", type=int, default=32)
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        counter = library(Path(folder))
        for game in chosen.games.split(","):
            count = counted(counter, game, chosen.after, chosen.steps, chosen.lanes)
            print(json.dumps({game: count}), flush=True)


if __name__ == "__main__":
    main()
