"""Writes a page with the speed of accel_rl relative to AtariVectorEnv, by commit. The page names the commits at which a
ratio fell.

    | python -m benchmarks.trend                                    measure this checkout's HEAD, as every night
    | python -m benchmarks.trend --commits 08b4d812 8076cb93 HEAD   measure commits, each built in its own worktree
    | python -m benchmarks.trend --commits                          write the page of the stored rows again

A row of the JSON file has the ratios of one commit on one machine, each of which is the median of repeated
measurements. A ratio fell if it is more than 5 % below the median of earlier commits on the machine. The exit code is 1
if a ratio fell at the newest commit.
"""

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from accel_rl.envs.atari_games import GAMES
from accel_rl.machine import hardware
from accel_rl.text.counts import Count, counted
from accel_rl.text.errors import ConfigError, RunError
from benchmarks.harness.program import one_of, program

ROOT = Path(__file__).parents[1]
PROBE = ROOT / "benchmarks" / "harness" / "trend_probe.py"
FALL = 0.95
HEAD = """# Trend

Written by `python -m benchmarks.trend`: env steps per CPU-second of `VectorEnv` with random actions, and of sampling
with A2C's network, relative to AtariVectorEnv with random actions. All have 16 environments; medians of turns."""
Row = dict[str, Any]


@dataclass(frozen=True)
class Options:
    commits: tuple[str, ...] = ("HEAD",)
    """Commits that are measured. If none is given, the page of the stored rows is written again."""
    games: tuple[str, ...] = ("pong", "breakout", "seaquest")
    """Atari games."""
    seconds: float = 2.0
    """Length of one measurement in seconds."""
    repeats: Count = 5
    """Number of repeated measurements, whose median is stored."""
    rows: str = str(ROOT / "benchmarks" / "results" / "trend.json")
    """JSON file with a row for each commit and machine. The page and the picture have the same name with .md and
    .svg."""
    json: str = ""
    """Write the rows also to the given JSON file."""

    TINY: ClassVar[dict[str, Any]] = {}

    def check(self) -> None:
        one_of("games", self.games, GAMES)
        if not self.seconds > 0 or self.repeats < 1:
            raise ConfigError(f"--seconds {self.seconds:g}, --repeats {self.repeats}: must be above 0")


def git(*words: str) -> str:
    done = subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True)
    if done.returncode:
        raise ConfigError(f"git {' '.join(words)}: {done.stderr.strip().splitlines()[-1]}")
    return done.stdout.strip()


def measured(commit: str, o: Options) -> Row:
    """Build a commit in a temporary git worktree, and measure its speed. Return the commit's row for the JSON file.
    Raises RunError."""
    with tempfile.TemporaryDirectory(prefix="trend-") as folder:
        place = Path(folder) / "checkout"
        git("worktree", "add", "--detach", str(place), commit)
        try:
            python = os.environ | {"PYTHONPATH": str(place)}
            build = [sys.executable, "setup.py", "-q", "build_ext", "--inplace"]
            probe = [sys.executable, "-P", str(PROBE), ",".join(o.games), str(o.seconds), str(o.repeats)]
            for words in (build, probe):
                done = subprocess.run(words, cwd=place, env=python, capture_output=True, text=True)
                if done.returncode:
                    raise RunError(f"{commit}: {(done.stderr.strip().splitlines() or ['no output'])[-1]}")
        finally:
            git("worktree", "remove", "--force", str(place))
    ratios = next(line for line in done.stdout.splitlines() if line.startswith("ratios "))
    name, committed, title = git("log", "-1", "--format=%h%n%ct%n%s", commit).split("\n")
    return {"commit": name, "time": int(committed), "title": title, "machine": machine_name(),
            "ratios": json.loads(ratios.removeprefix("ratios "))}  # fmt: skip


def machine_name() -> str:
    """Return a text with the number of usable cores, the model of the CPU, and the GPUs of this machine."""
    gpus = hardware.gpu_models() if hardware.gpu_count() else []
    return ", ".join([f"{counted(len(hardware.usable_cores()), 'core')} of {hardware.cpu_name()}", *gpus])


def stored(rows: list[Row], new: list[Row]) -> list[Row]:
    """Merge new rows into the stored rows, and sort by machine and time. A new row replaces the row of the same commit
    and machine."""
    by_key = {(r["commit"], r["machine"]): r for r in (*rows, *new)}
    return sorted(by_key.values(), key=lambda r: (r["machine"], r["time"]))


def falls(rows: list[Row]) -> list[tuple[Row, str]]:
    """Return (row, line of text) for each ratio that fell. A row is compared with earlier rows of the same machine."""
    fallen = []
    for i, row in enumerate(rows):
        earlier = [r["ratios"] for r in rows[:i] if r["machine"] == row["machine"]]
        for name, value in row["ratios"].items():
            if before := [ratios[name] for ratios in earlier if name in ratios]:
                usual = statistics.median(before)
                if value < FALL * usual:
                    text = f"{row['commit']} ({row['title']}): {name} fell from {usual:.2f} to {value:.2f}"
                    fallen.append((row, text))
    return fallen


def draw(rows: list[Row], file: Path) -> None:
    """Draw the ratios by commit, in one panel for each machine."""
    from matplotlib.figure import Figure

    machines = list(dict.fromkeys(r["machine"] for r in rows))
    figure = Figure(figsize=(8, 4 * len(machines)), layout="constrained")
    for i, machine in enumerate(machines):
        axes, of_machine = figure.add_subplot(len(machines), 1, i + 1), [r for r in rows if r["machine"] == machine]
        for name in dict.fromkeys(n for r in of_machine for n in r["ratios"]):
            axes.plot([r["commit"] for r in of_machine], [r["ratios"].get(name) for r in of_machine], "o-", label=name)
        axes.set(title=machine, ylabel="x AtariVectorEnv", ylim=(0, None))
        axes.legend(fontsize="small")
    figure.savefig(file)


def measure(o: Options) -> dict[str, Any]:
    file = Path(o.rows)
    rows: list[Row] = json.loads(file.read_text()) if file.exists() else []
    for commit in o.commits:
        rows = stored(rows, [measured(commit, o)])  # A row is stored before the next commit is built.
        file.write_text(json.dumps(rows, indent=1) + "\n")
    if rows:
        draw(rows, file.with_suffix(".svg"))
        picture = f"![Ratios by commit]({file.with_suffix('.svg').name})"
        lines = [HEAD, "", picture, "", *report(o, {"rows": rows})]
        file.with_suffix(".md").write_text("\n".join(lines) + "\n")
    newest = [text for row, text in falls(rows) if row is max(rows, key=lambda r: r["time"])]
    return {"rows": rows, "wrong": newest}


def report(o: Options, result: dict[str, Any]) -> list[str]:
    """Return a page in Markdown: the table of rows, and the ratios that fell."""
    rows: list[Row] = result["rows"]
    names = list(dict.fromkeys(name for r in rows for name in r["ratios"]))
    heads = ["commit", "date", "machine", *names]
    lines = [f"| {' | '.join(heads)} |", "|---" * len(heads) + "|"]
    for r in rows:
        day = time.strftime("%Y-%m-%d", time.gmtime(r["time"]))
        cells = [r["commit"], day, r["machine"], *(f"{r['ratios'][n]:.2f}" if n in r["ratios"] else "" for n in names)]
        lines.append(f"| {' | '.join(cells)} |")
    return [*lines, "", *(f"- {text}" for _, text in falls(rows)), *(["No ratio fell."] if not falls(rows) else [])]


def main(argv: list[str]) -> int:
    return program("benchmarks.trend", __doc__, Options, argv, measure, report)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
