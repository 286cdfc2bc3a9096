"""Train PQN for 0.5 M env steps on one game each night, and test whether PQN learns less than in earlier nights.

    python -m tests.learning_series --rows series.csv                  train on the next game, and append its score
    python -m tests.learning_series --rows series.csv --nights 0       only test the stored rows

A night's score is compared with the earlier nights of the same game (n, mean, deviation) by the Q statistic

    Q = Phi^-1(T_{n-1}(sqrt(n / (n + 1)) (score - mean) / deviation))

If the code does not change and scores are normally distributed, Q is standard normal and independent of other nights
(Quesenberry 1991). The program raises an alarm when the cumulative sum S <- max(0, S - Q - 0.5) reaches LIMIT. If the
code does not change, one false alarm is raised in 370 nights on average (Page 1954; Montgomery 2013, section 9.1).
Nights since S was last 0 are excluded from the mean and deviation, which would otherwise follow a fall of the score.
The exit code is 1 if the newest night raises an alarm.
"""

import csv
import math
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np

import accel_rl
from accel_rl.report.non_inferiority import student
from accel_rl.run.run_folder import git_revision
from accel_rl.text.counts import Count
from accel_rl.text.errors import ConfigError, RunError
from benchmarks.harness.program import machine, program
from benchmarks.harness.table import table
from experiments.suite import GAMES

SLACK, LIMIT = 0.5, 4.1
LEAST = 3
"""Minimum number of earlier nights of a game with which a night is compared."""
EFFECTS = (0.5, 1.0, 2.0)
"""Falls of the score, in standard deviations over seeds, for which the power of the test is printed."""
MOST = 400
"""Number of simulated nights after a fall of the score."""


@dataclass(frozen=True)
class Night:
    date: str
    git: str
    game: str
    seed: int
    env_steps: int
    score: float
    """Mean score of the last 100 training episodes."""
    minutes: float


@dataclass(frozen=True)
class Options:
    rows: str = "learning_series.csv"
    """CSV file of all nights, to which new nights are appended."""
    since: str = ""
    """Compare only with nights since this date, such as 2026-11-30, for example after an intended change."""
    nights: Count = 1
    """Number of nights, each with the next game, to train now."""
    env_steps: Count = 500_000
    draws: Count = 200
    """Number of simulated series from which the power of the test is estimated."""
    json: str = ""
    """Write the result also to the given JSON file."""

    def check(self) -> None:
        if self.env_steps < 1 or self.draws < 1:
            raise ConfigError(f"--env-steps {self.env_steps}, --draws {self.draws}: must be at least 1")


def read(file: Path) -> list[Night]:
    """Read the CSV file of all nights. Raises ConfigError if the file has another format."""
    if not file.exists():
        return []
    kinds: dict[str, Any] = {f.name: f.type for f in fields(Night)}
    try:
        with open(file, newline="") as f:
            return [Night(**{name: kinds[name](value) for name, value in row.items()}) for row in csv.DictReader(f)]
    except (KeyError, TypeError, ValueError) as e:
        raise ConfigError(f"--rows {file}: is no series of nights ({type(e).__name__}: {e})") from e


def train(number: int, env_steps: int) -> Night:
    """Train for one night on game `number`, modulo the number of games, with the seed `number`."""
    game, began = GAMES[number % len(GAMES)], time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        run = accel_rl.train(
            "pqn", game=game, env_steps=env_steps, seed=number, evaluation__interval=0, run_dir=f"{folder}/run"
        )
        scores = run.metrics.get("score", np.empty(0))
    if not np.isfinite(scores[-1:]).any():
        raise RunError(f"no episode of {game} has ended in {env_steps:,} env steps")
    revision = git_revision(Path(__file__).parent) or ""
    minutes = (time.monotonic() - began) / 60
    return Night(time.strftime("%Y-%m-%d"), revision, game, number, env_steps, float(scores[-1]), round(minutes, 2))


def sums(games: Sequence[str], scores: Sequence[float]) -> Iterator[float]:
    """Yield the cumulative sum S after each night."""
    known: dict[str, list[float]] = {game: [] for game in games}
    recent: list[tuple[str, float]] = []  # (game, score) of each night since the sum S was last 0
    now = 0.0
    for game, score in zip(games, scores, strict=True):
        recent.append((game, score))
        if len(known[game]) >= LEAST:
            now = max(0.0, now - q_statistic(known[game], score) - SLACK)
        if now == 0:
            for g, s in recent:
                known[g].append(s)
            recent.clear()
        yield now


def q_statistic(earlier: Sequence[float], score: float) -> float:
    n, deviation = len(earlier), statistics.stdev(earlier)
    if deviation == 0:
        return float(np.sign(score - earlier[0]))
    t = math.sqrt(n / (n + 1)) * (score - statistics.fmean(earlier)) / deviation
    p = float(student(np.array([t]), np.array([n - 1.0]))[0])
    return statistics.NormalDist().inv_cdf(min(max(p, 1e-9), 1 - 1e-9))


def nights_to_alarm(before: int, effect: float, draws: int) -> np.ndarray:
    """Return the number of nights from a fall of the scores to the alarm, at most MOST, in each of `draws` simulated
    series. Scores fall by `effect` standard deviations after `before` nights; series with an earlier alarm are
    dropped."""
    rng, result = np.random.default_rng(1), []
    games = [GAMES[i % len(GAMES)] for i in range(before + MOST)]
    while len(result) < draws:
        scores = rng.normal(size=len(games)) - effect * (np.arange(len(games)) >= before)
        alarm = next((i for i, s in enumerate(sums(games, scores.tolist())) if s >= LIMIT), before + MOST - 1)
        if alarm >= before:
            result.append(alarm - before + 1)
    return np.array(result)


def measure(o: Options) -> dict[str, Any]:
    file = Path(o.rows)
    nights = [night for night in read(file) if night.env_steps == o.env_steps and night.date >= o.since]
    for _ in range(o.nights):
        night = train(len(nights), o.env_steps)
        nights.append(night)
        is_new = not file.exists()
        with open(file, "a", newline="") as f:
            writer = csv.DictWriter(f, [field.name for field in fields(Night)], lineterminator="\n")
            if is_new:
                writer.writeheader()
            writer.writerow(asdict(night))
    found = list(sums([night.game for night in nights], [night.score for night in nights]))
    power = {effect: nights_to_alarm(len(nights), effect, o.draws) for effect in EFFECTS}
    return {
        "nights": [asdict(night) for night in nights],
        "sums": found,
        "median_nights_to_alarm": {str(effect): float(np.median(n)) for effect, n in power.items()},
        "wrong": [f"the scores fell: the sum is {found[-1]:.1f}"] if found and found[-1] >= LIMIT else [],
        "machine": machine(),
    }


def report(o: Options, result: dict[str, Any]) -> list[str]:
    rows = [
        [night["date"], night["git"][:8], night["game"], f"{night['score']:.2f}", f"{e:.2f}"]
        for night, e in list(zip(result["nights"], result["sums"], strict=True))[-30:]
    ]
    lines = table(["date", "git", "game", "score", "sum"], rows)
    for effect, median in result["median_nights_to_alarm"].items():
        often = f"{median:.0f} nights" if median < MOST else f"more than {MOST} nights"
        lines.append(f"a fall of all scores by {effect} deviations raises the alarm after {often} (median)")
    return [*lines, f"the alarm is a sum of {LIMIT}, without a change once in 370 nights on average"]


def main(argv: list[str]) -> int:
    return program("tests.learning_series", __doc__, Options, argv, measure, report)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
