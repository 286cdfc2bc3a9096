"""Trace the emulator against ale-py: RAM, reward, lives, end of the game and screen of every frame.

    python -m benchmarks.emulator_trace --games all57 --seeds 2 --frames 2000
    python -m benchmarks.emulator_trace --games pong,breakout --policy full --sticky 0.25 --resets 3
    python -m benchmarks.emulator_trace --games all57 --modes --frames 300         # every mode, difficulties in turn
    python -m benchmarks.emulator_trace --release                                  # before a release: hours

The release protocol is 5 seeds x 20,000 frames of a game, 3 resets besides those at the ends of games, the policies in
turn, sticky probability 0 and 0.25 in turn, and every mode for 300 frames; its table goes to
benchmarks/results/emulator_trace.md. A game's line says `exact`, or the first frame that differs, in what; --verbose
shows the instructions of that frame.
"""

import argparse
import json
import sys
import time
from pathlib import Path
from typing import Any

from accel_rl.emulator import games
from accel_rl.emulator.atari import rom_path
from accel_rl.emulator.games import modes
from benchmarks.emulator_pair import Outcome, Run, first_difference, trace

POLICIES = ("random", "held", "full")
TWO_PLAYERS = ("combat", "joust", "maze_craze", "warlords")  # ale-py ships their ROMs, and refuses to load them
RESULTS = Path(__file__).parent / "results" / "emulator_trace.md"


def chosen(text: str) -> list[str]:
    """`all57`, `all` (every ROM that ale-py loads for one player, emulated or not), or names with commas."""
    known = list(games())
    if text == "all57":
        return known[:57]
    if text != "all":
        return text.split(",")
    roms = {path.stem for path in rom_path(known[0]).parent.glob("*.bin")}
    return known + sorted(roms - {*known, *TWO_PLAYERS})


def release_runs(game: str) -> list[Run]:
    runs = [
        Run(game, seed, frames=20_000, policy=POLICIES[seed % 3], sticky=0.25 * (seed % 2), resets=3)
        for seed in range(5)
    ]
    return runs + mode_runs(game, 300)


def mode_runs(game: str, frames: int) -> list[Run]:
    difficulties = games()[game]["difficulties"]
    settings = [(mode, difficulties[i % len(difficulties)]) for i, mode in enumerate(modes(game))]
    settings += [(modes(game)[0], difficulty) for difficulty in difficulties]
    return [Run(game, 7, frames, "full", 0.25, 1, mode=m, difficulty=d) for m, d in dict.fromkeys(settings)]


def play(game: str, runs: list[Run]) -> dict[str, Any]:
    """A game's row of the table."""
    outcomes = []
    for number, run in enumerate(runs):
        if sys.stderr.isatty():
            print(f"\r{game}: run {number + 1} of {len(runs)} ", end="", file=sys.stderr, flush=True)
        try:
            outcomes.append(trace(run))
        except Exception as error:
            outcomes.append(Outcome(game, error=f"{type(error).__name__}: {error}"))
    first = {
        what: f"{run.policy} seed {run.seed} mode {run.mode} {text}"
        for run, o in zip(reversed(runs), reversed(outcomes), strict=True)
        for what, text in o.first.items()
    }
    error = next((o.error for o in outcomes if o.error), "")
    frames, episodes = sum(o.frames for o in outcomes), sum(o.episodes for o in outcomes)
    verdict = error or "; ".join(f"{what} {text}" for what, text in first.items()) or "exact"
    return {"frames": frames, "episodes": episodes, "runs": len(runs), "exact": verdict == "exact", "verdict": verdict}


def table_text(table: dict[str, dict[str, Any]], command: str) -> str:
    import ale_py

    exact = sum(row["exact"] for row in table.values())
    rows = [f"| {g} | {r['runs']} | {r['frames']:,} | {r['episodes']} | {r['verdict']} |" for g, r in table.items()]
    return "\n".join([
        f"# The emulator against ale-py {ale_py.__version__}, frame by frame", "",
        f"`{command}` on {time.strftime('%Y-%m-%d')}: {exact} of {len(table)} games exact in RAM, reward, lives,",
        f"end of the game and screen over {sum(r['frames'] for r in table.values()):,} frames.", "",
        "| game | runs | frames | episodes | verdict |", "|---|---|---|---|---|", *rows, "",
    ])  # fmt: skip


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--games", default="all57", help="all57, all, or names with commas")
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--frames", type=int, default=2000)
    parser.add_argument("--policy", default="random", choices=[*POLICIES, "all"])
    parser.add_argument("--sticky", type=float, default=0.0)
    parser.add_argument("--resets", type=int, default=1, help="resets besides those at an end of the game")
    parser.add_argument("--screens", type=int, default=1, help="compare every n-th screen")
    parser.add_argument("--modes", action="store_true", help="every mode and difficulty instead of the seeds")
    parser.add_argument("--release", action="store_true", help="the release protocol; writes the table of results")
    parser.add_argument("--verbose", action="store_true", help="print the first differing frame's instructions")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--table", type=Path, help="write the table as Markdown")
    args = parser.parse_args(argv)
    policies = POLICIES if args.policy == "all" else (args.policy,)
    table, start = {}, time.monotonic()
    for game in chosen(args.games):
        runs = [
            Run(game, seed, args.frames, policy, args.sticky, args.resets, args.screens)
            for policy in policies for seed in range(args.seeds)
        ]  # fmt: skip
        if args.modes or args.release:
            runs = release_runs(game) if args.release else mode_runs(game, args.frames)
        row = table[game] = play(game, runs)
        print(f"{game:18} {row['frames']:7} frames {row['episodes']:4} episodes  {row['verdict']}", flush=True)
        if args.verbose and not row["exact"]:
            print(next((first_difference(run) for run in runs if trace(run).first), ""))
        if path := args.table or (RESULTS if args.release else None):
            command = "python -m benchmarks.emulator_trace " + " ".join(argv if argv is not None else sys.argv[1:])
            path.write_text(table_text(table, command))
    exact = sum(row["exact"] for row in table.values())
    print(f"{exact} of {len(table)} games exact in everything, {time.monotonic() - start:.0f} s")
    if args.json:
        args.json.write_text(json.dumps(table, indent=1))
    return 0 if exact == len(table) else 1


if __name__ == "__main__":
    sys.exit(main())
