"""Speed of the emulator against ale-py, per game, interleaved, one core: frames per second with every picture drawn.

python -m benchmarks.emulator --json OUT [--games all57] [--frames 2000] [--rounds 3]
"""

import argparse
import json
import statistics
import time
from collections.abc import Callable
from pathlib import Path

from accel_rl.emulator import AtariEmulator
from benchmarks.emulator_pair import actions, reference
from benchmarks.emulator_trace import chosen


def frames_per_s(act: Callable[[int], int], over: Callable[[], bool], reset: Callable[[], None], frames: int) -> float:
    """Random full-set actions, resets left out of the time."""
    policy, spent = actions("full", [], 0), 0.0
    for _ in range(frames):
        if over():
            reset()
        action = next(policy)
        start = time.perf_counter()
        act(action)
        spent += time.perf_counter() - start
    return frames / spent


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--games", default="all57")
    parser.add_argument("--frames", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    rows = {}
    for game in chosen(args.games):
        ale, ours = reference(game, 0, 0.0), AtariEmulator(game)
        theirs_s, ours_s = [], []
        for _ in range(args.rounds):
            theirs_s.append(frames_per_s(ale.act, ale.game_over, ale.reset_game, args.frames))
            ours_s.append(frames_per_s(ours.act, lambda o=ours: o.game_over, ours.reset, args.frames))
        theirs, mine = statistics.median(theirs_s), statistics.median(ours_s)
        rows[game] = {"ale_frames_per_s": theirs, "emulator_frames_per_s": mine, "ratio": mine / theirs}
        print(
            f"{game:18} ale-py {theirs:8.0f} frames/s   emulator {mine:8.0f} frames/s   {mine / theirs:5.2f} x",
            flush=True,
        )
    print(f"median ratio {statistics.median(r['ratio'] for r in rows.values()):.2f}")
    if args.json:
        args.json.write_text(json.dumps(rows, indent=1))


if __name__ == "__main__":
    main()
