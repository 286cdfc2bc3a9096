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
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from accel_rl.emulator import AtariEmulator, games
from accel_rl.emulator.atari import rom_path
from accel_rl.emulator.games import modes

POLICIES = ("random", "held", "full")
RESULTS = Path(__file__).parent / "results" / "emulator_trace.md"


@dataclass(frozen=True)
class Run:
    """How one trace is made. `resets` come besides those at an end of the game; `screens` of 10: every tenth screen."""

    game: str
    seed: int = 0
    frames: int = 2000
    policy: str = "random"
    sticky: float = 0.0
    resets: int = 1
    screens: int = 1
    mode: int | None = None
    difficulty: int | None = None


@dataclass
class Outcome:
    """What one traced run found; `first` names the first differing frame of each field."""

    game: str
    frames: int = 0
    episodes: int = 1
    first: dict[str, str] = field(default_factory=dict)
    error: str = ""

    @property
    def exact(self) -> bool:
        return not self.first and not self.error


def actions(policy: str, minimal: list[int], seed: int) -> Iterator[int]:
    """Endless actions: `random` minimal ones, `held` each for 1 to 30 frames, `full` all 18 at random."""
    rng = np.random.default_rng(seed)
    choices = list(range(18)) if policy == "full" else minimal
    while True:
        action = choices[rng.integers(len(choices))]
        for _ in range(rng.integers(1, 31) if policy == "held" else 1):
            yield action


def reference(run: Run) -> Any:
    import ale_py

    ale_py.ALEInterface.setLoggerMode(ale_py.LoggerMode.Error)
    ale = ale_py.ALEInterface()
    ale.setFloat("repeat_action_probability", run.sticky)
    ale.setInt("random_seed", run.seed)
    ale.loadROM(rom_path(run.game))
    if run.mode is not None:
        ale.setMode(run.mode)
    if run.difficulty is not None:
        ale.setDifficulty(run.difficulty)
    if run.mode is not None or run.difficulty is not None:
        ale.reset_game()
    return ale


class SideBySide:
    """The reference and the emulator under the same actions and resets."""

    def __init__(self, run: Run) -> None:
        self.ale = reference(run)
        self.ours = AtariEmulator(run.game, run.seed, run.sticky, run.mode, run.difficulty)
        self.actions = actions(run.policy, [a.value for a in self.ale.getMinimalActionSet()], run.seed)
        self.reset_every = run.frames // (run.resets + 1) + 1
        self.frame, self.episodes, self.rewards = 0, 1, (0, 0)

    def step(self) -> int | None:
        """One frame; the action, or None where both were reset instead."""
        self.frame += 1
        if self.ale.game_over() or self.frame % self.reset_every == 0:
            self.ale.reset_game()
            self.ours.reset()
            self.episodes += 1
            self.rewards = (0, 0)
            return None
        action = next(self.actions)
        self.rewards = (self.ale.act(action), self.ours.act(action))
        return action


def _differences(ale: Any, ours: AtariEmulator, rewards: tuple[int, int], screen: bool) -> Iterator[tuple[str, str]]:
    theirs_ram, our_ram = ale.getRAM(), ours.ram()
    if (theirs_ram != our_ram).any():
        at = np.nonzero(theirs_ram != our_ram)[0]
        shown = ", ".join(f"{128 + i:#x}: {our_ram[i]:#x} for {theirs_ram[i]:#x}" for i in at[:4])
        yield "ram", f"{len(at)} bytes, {shown}"
    if rewards[0] != rewards[1]:
        yield "reward", f"{rewards[1]} for {rewards[0]}"
    if ale.lives() != ours.lives:
        yield "lives", f"{ours.lives} for {ale.lives()}"
    if ale.game_over() != ours.game_over:
        yield "over", f"{ours.game_over} for {ale.game_over()}"
    if screen:
        theirs, our = ale.getScreen(), ours.screen()
        if theirs.shape != our.shape:
            yield "screen", f"shape {our.shape} for {theirs.shape}"
        elif (theirs != our).any():
            y, x = np.nonzero(theirs != our)
            yield (
                "screen",
                f"{len(y)} pixels, first ({y[0]}, {x[0]}): {our[y[0], x[0]]} for {theirs[y[0], x[0]]}",
            )


def trace(run: Run) -> Outcome:
    """Runs both; stops at a difference in RAM, after which nothing would agree."""
    out, pair = Outcome(run.game), SideBySide(run)
    while True:
        for what, text in _differences(pair.ale, pair.ours, pair.rewards, pair.frame % run.screens == 0):
            out.first.setdefault(what, f"frame {pair.frame}: {text}")
        if "ram" in out.first or pair.frame == run.frames:
            out.episodes = pair.episodes
            return out
        out.frames += pair.step() is not None


def first_difference(run: Run) -> str:
    """The instructions of the first frame that differs in RAM or screen."""
    pair = SideBySide(run)
    while pair.frame < run.frames:
        before = pair.ours.save()
        action = pair.step()
        if (pair.ale.getRAM() == pair.ours.ram()).all() and (pair.ale.getScreen() == pair.ours.screen()).all():
            continue
        if action is None:
            return f"{run}: differs after a reset"
        pair.ours.restore(before)
        lines = [f"{run}: frame {pair.frame}, action {action}"]
        for cycle, line, at, pc, b0, b1, b2, a, x, y, sp in pair.ours.trace(action):
            where = f"{cycle:6} line {line:3} +{at:2}  {pc:04X}  {b0:02X} {b1:02X} {b2:02X}"
            lines.append(f"{where}  A{a:02X} X{x:02X} Y{y:02X} S{sp:02X}")
        return "\n".join(lines)
    return f"{run}: no difference"


def chosen(text: str) -> list[str]:
    known = list(games())
    if text in ("all57", "all"):
        return known[:57] if text == "all57" else known
    return text.split(",")


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
