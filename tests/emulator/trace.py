"""Compare the RAM, reward, lives, end of the game and screen of every frame in our emulator and in ale-py.

    python -m tests.emulator.trace --games all57 --seeds 2 --frames 2000
    python -m tests.emulator.trace --games pong breakout --policy full --sticky 0.25 --resets 3
    python -m tests.emulator.trace --games all57 --modes --frames 2000        # every mode with every difficulty
    python -m tests.emulator.trace --release                                  # before a release

The output has one line per game: `exact`, or the first differing frame and its differing fields. The option --verbose
prints the CPU instructions of the first differing frame. The release protocol plays 5 seeds x 20,000 frames of each
game, with 3 additional resets, alternating policies, and sticky probabilities of 0 and 0.25. The release protocol also
plays 2,000 frames with every pair of mode and difficulty, and writes its table to benchmarks/results/emulator_trace.md.
"""

import multiprocessing
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from accel_rl.emulator.games import difficulties, modes
from accel_rl.machine.hardware import usable_cores
from accel_rl.text.counts import Count
from accel_rl.text.errors import ConfigError
from benchmarks.harness.games import chosen
from benchmarks.harness.program import program
from benchmarks.harness.table import table
from tests.emulator.side_by_side import Outcome, Run, first_difference, trace

POLICIES = ("random", "held", "full")
RESULTS = Path(__file__).parents[2] / "benchmarks" / "results" / "emulator_trace.md"
COLUMNS = ("game", "runs", "frames", "episodes", "verdict")


@dataclass(frozen=True)
class Options:
    games: tuple[str, ...] = ("all57",)
    """all57, all, or names."""
    seeds: Count = 2
    """Number of runs of each policy."""
    frames: Count = 2000
    """Number of frames of a run."""
    policy: Literal["random", "held", "full", "all"] = "random"
    """random: minimal actions; held: each for 1 to 30 frames; full: all 18; all: these in turn."""
    sticky: float = 0.0
    """Probability that a frame repeats the last action."""
    resets: int = 1
    """Number of resets in a run, in addition to those at the end of each game."""
    screens: Count = 1
    """Compare every n-th screen."""
    modes: bool = False
    """Trace every pair of mode and difficulty instead of several seeds."""
    release: bool = False
    """Run the release protocol, and write the table of results."""
    translated: bool = False
    """Trace translated games instead of interpreted ones."""
    jobs: int = 0
    """Number of games that are traced in parallel, each in one process. With 0, one process per usable core."""
    verbose: bool = False
    """Print the instructions of the first differing frame."""
    json: str = ""
    """Write all results also to the given JSON file."""
    table: str = ""
    """Write the table as Markdown."""

    def check(self) -> None:
        """Raise ConfigError if an option is impossible."""
        chosen(self.games)
        if not 0 <= self.sticky <= 1:
            raise ConfigError(f"--sticky {self.sticky}: a probability, 0 to 1")
        if min(self.resets, self.jobs) < 0:
            raise ConfigError(f"--resets {self.resets} --jobs {self.jobs}: 0 or more")

    def runs(self, game: str) -> list[Run]:
        """Return the runs of a game that the options select."""
        runs = release_runs(game) if self.release else mode_runs(game, self.frames) if self.modes else self._seeds(game)
        return [replace(run, translated=self.translated) for run in runs]

    def _seeds(self, game: str) -> list[Run]:
        policies = POLICIES if self.policy == "all" else (self.policy,)
        seeds = [(policy, seed) for policy in policies for seed in range(self.seeds)]
        return [Run(game, s, self.frames, policy, self.sticky, self.resets, self.screens) for policy, s in seeds]


def release_runs(game: str) -> list[Run]:
    """Return the runs of the release protocol."""
    seeds = [Run(game, s, 20_000, POLICIES[s % 3], sticky=0.25 * (s % 2), resets=3) for s in range(5)]
    return seeds + mode_runs(game, 2_000)


def mode_runs(game: str, frames: int) -> list[Run]:
    """Return one run for each pair of a mode and a difficulty."""
    pairs = [(mode, difficulty) for mode in modes(game) for difficulty in difficulties(game)]
    return [Run(game, 7, frames, "full", 0.25, 1, mode=m, difficulty=d) for m, d in pairs]


def play(game: str, runs: list[Run]) -> dict[str, Any]:
    """Trace all runs of a game, and return the game's row of the table."""
    outcomes, first = [], {}
    for run in runs:
        try:
            outcomes.append(trace(run))
        except Exception as error:
            outcomes.append(Outcome(game, error=f"{type(error).__name__}: {error}"))
        for name, text in outcomes[-1].first.items():
            first.setdefault(name, f"{name} {run.policy} seed {run.seed} mode {run.mode} {text}")
    error = next((o.error for o in outcomes if o.error), "")
    frames, episodes = sum(o.frames for o in outcomes), sum(o.episodes for o in outcomes)
    verdict = error or "; ".join(first.values()) or "exact"
    return {"frames": frames, "episodes": episodes, "runs": len(runs), "exact": verdict == "exact", "verdict": verdict}


def page(rows: dict[str, dict[str, Any]], command: str) -> str:
    """Return the Markdown page with the table of results."""
    import ale_py

    exact, frames = sum(r["exact"] for r in rows.values()), sum(r["frames"] for r in rows.values())
    return "\n".join([
        f"# The emulator against ale-py {ale_py.__version__}, frame by frame", "",
        f"`{command}` on {time.strftime('%Y-%m-%d')}: {exact} of {len(rows)} games exact in RAM, reward, lives,",
        f"end of the game and screen over {frames:,} frames.", "",
        *table(COLUMNS, [[game, *(r[name] for name in COLUMNS[1:])] for game, r in rows.items()]), "",
    ])  # fmt: skip


def measure(o: Options) -> dict[str, Any]:
    """Trace the games in parallel, and print one line per game, in the order of the games."""
    names, start, rows = chosen(o.games), time.monotonic(), {}
    path = Path(o.table) if o.table else RESULTS if o.release else None
    with ProcessPoolExecutor(o.jobs or len(usable_cores()), multiprocessing.get_context("spawn")) as pool:
        for game, row in zip(names, pool.map(play, names, map(o.runs, names)), strict=True):
            rows[game] = row
            print(f"{game:18} {row['frames']:7} frames {row['episodes']:4} episodes  {row['verdict']}", flush=True)
            if o.verbose and not row["exact"]:
                print(next((first_difference(run) for run in o.runs(game) if trace(run).first), ""))
            if path:
                path.write_text(page(rows, "python -m tests.emulator.trace " + " ".join(sys.argv[1:])))
    wrong = [game for game, row in rows.items() if not row["exact"]]
    return {"games": rows, "seconds": time.monotonic() - start, "wrong": wrong}


def report(_: Options, result: dict[str, Any]) -> list[str]:

    rows, wrong = result["games"], result["wrong"]
    return [f"{len(rows) - len(wrong)} of {len(rows)} games exact in everything, {result['seconds']:.0f} s"]


def main(argv: list[str]) -> int:
    """python -m tests.emulator.trace [options]"""
    return program("tests.emulator.trace", __doc__, Options, argv, measure, report)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
