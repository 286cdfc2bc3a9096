"""Counts, on a CPU, the operations that a GPU's warp executes per frame of an Atari game.

    python -m tests.emulator.device.counters --games pong,breakout       # or --games all57
    python -m tests.emulator.device.counters --estimate                  # times from the recorded counts

A warp of 32 environments at different steps of a game plays random actions. The results are in counters.json, together
with the counts of tia_counts.py for 32 lanes (`tia`) and 4 lanes (`few`), and of blocks_on_host.py (`blocks`).
"""

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np

from accel_rl.emulator.env_core import make_env_core
from accel_rl.emulator.games import games
from accel_rl.envs.atari_games import ATARI_57
from tests.emulator.device.compare import FRAME_SKIP, HostEnvs, luminance, make_starts

CLOCK_HZ, FEW_ENVS, ENVS = 1.755e9, 1_024, 8_192
FILE = Path(__file__).parent / "counters.json"
LANES, TIMERS, NOOPS = 32, 5, 31
WARM_UP, STEPS = 200, 50
"""An environment plays 100 to 200 agent steps before the 50 measured steps, so that no game is in its opening."""


def decorrelated(game: str) -> HostEnvs:
    """Return 32 environments, each of which has played between WARM_UP / 2 and WARM_UP agent steps with random
    actions."""
    envs = HostEnvs(game, range(LANES), "104x80", 0.0, max_steps=10**6, life_loss=False)
    core = make_env_core(game, "104x80", luminance(210), FRAME_SKIP, max_steps=10**6, life_loss=False)
    _, plays, start_frames = make_starts(core, "104x80", TIMERS, NOOPS)
    envs.set_starts(plays, start_frames, TIMERS, NOOPS)
    envs.begin(True)
    delays, rng = np.arange(LANES) * WARM_UP // (2 * LANES), np.random.default_rng(0)
    for t in range(WARM_UP):
        envs.step(np.where(delays > t, -1, rng.choice(games()[game]["actions"], LANES)), draws=False)
        envs.begin(False)
    return envs


def counters(game: str) -> dict[str, float]:
    """Return {name: count per frame} of a warp.

    The counts are the iterations of the warp's loop over 6507 instructions, the mean iterations of a lane, and the
    percentage of the warp's iterations in which a lane needs the plain interpreter.
    """
    envs, rng = decorrelated(game), np.random.default_rng(1)
    played = []
    for _ in range(STEPS):
        played.append(envs.step(rng.choice(games()[game]["actions"], LANES), draws=False))
        envs.begin(False)
    warps, lanes, slow = (int(n) for n in np.sum(played, axis=0))
    frames = STEPS * FRAME_SKIP
    return {
        "iterations": round(warps / frames, 1),
        "lane_iterations": round(lanes / frames / LANES, 1),
        "slow_percent": round(100 * slow / warps, 3),
    }


def estimate(count: dict[str, Any], blocks: bool, envs: int) -> float:
    """Return the estimated milliseconds of an agent step of 1,024 or 8,192 environments on an H100.

    With `blocks`, the estimate is for the game's own kernel instead of the kernel for all games. The estimated times
    have not been compared with measured times.

    The counts are multiplied by numbers of instructions in the machine code, such as 350 for an iteration of the loop
    over 6507 instructions. An instruction of a warp takes 3.2 cycles, which was fitted to measured steps of the version
    of 2026-11-22 with an error of 7.5 %. A multiprocessor runs two warps, each of 4 environments (1,024 in all) or 32
    environments (8,192 in all). The counts of iterations and blocks are those of warps of 32 environments, and too
    large for warps of 4 environments. An observation takes 75,000 instructions, at half the rate at which all
    multiprocessors can begin instructions.
    """
    warp = {**count, **count["blocks"], **count["few" if envs == FEW_ENVS else "tia"]}
    instructions = 300 * warp["turns"] + 600 * warp["searches"]
    if blocks:
        instructions += 25 * warp["dispatches"] + 12.5 * warp["issued"]
    else:
        instructions += 350 * warp["iterations"]
    step = FRAME_SKIP * instructions * 3.2 / CLOCK_HZ
    draw = envs * 75_000 / (0.5 * 132 * 4 * CLOCK_HZ)
    return 1e3 * (step + draw)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--games", default="all57")
    parser.add_argument("--estimate", action="store_true")
    wanted = parser.parse_args()
    for game in ATARI_57 if wanted.games == "all57" else wanted.games.split(","):
        if not wanted.estimate:
            print(json.dumps({game: counters(game)}), flush=True)
            continue
        count = json.loads(FILE.read_text())[game]
        few, most = ([estimate(count, blocks, n) for blocks in (True, False)] for n in (FEW_ENVS, ENVS))
        frames = [1e-3 * ENVS * FRAME_SKIP / ms for ms in most]
        print(
            f"{game}: {few[0]:.1f} ms a step of {FEW_ENVS:,} environments by its own kernel, {few[1]:.1f} by that of "
            f"all games; {frames[0]:.1f} and {frames[1]:.1f} M frames/s of {ENVS:,}"
        )


if __name__ == "__main__":
    main()
