"""What a warp of the emulator's kernels executes per frame, counted on a CPU.

    python -m tests.emulator.device.counters --games pong,breakout       # or --games all57 --out FILE

32 environments, which have played different numbers of steps, play random actions as one warp.
"""

import argparse
import json
from pathlib import Path

import numpy as np

from accel_rl.emulator.env_core import make_env_core
from accel_rl.emulator.games import games
from tests.emulator.device.compare import FRAME_SKIP, HostEnvs, luminance, make_starts

FILE = Path(__file__).parent / "counters.json"
LANES, TIMERS, NOOPS = 32, 5, 31
WARM_UP, STEPS = 200, 50
"""The mean environment has played 150 steps before the measured ones, so that no game is in its opening."""


def decorrelated(game: str) -> HostEnvs:
    """Return 32 environments that have played WARM_UP / 2 to WARM_UP steps with random actions of the game."""
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
    """Return counts per frame of the warp: iterations of the 6507's loop, those of the mean lane, and the percentage of
    the warp's iterations in which a lane needs the plain interpreter."""
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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--games", default="all57")
    parser.add_argument("--out", type=Path)
    wanted = parser.parse_args()
    counted = {}
    for game in list(games())[:57] if wanted.games == "all57" else wanted.games.split(","):
        counted[game] = counters(game)
        print(json.dumps({game: counted[game]}), flush=True)
    if wanted.out:
        rows = (f"  {json.dumps(game)}: {json.dumps(row)}" for game, row in counted.items())
        wanted.out.write_text("{\n" + ",\n".join(rows) + "\n}\n")


if __name__ == "__main__":
    main()
