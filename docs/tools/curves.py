"""Draws learning curves of the recorded runs from their metrics.csv: the online score, and a dot for each evaluation.
Evaluations of fewer than 10 episodes are omitted."""

import csv
from dataclasses import dataclass
from pathlib import Path

from svg import BLUE, GREEN, GREY, INK, LINE, ORANGE, Drawing

RESULTS = Path(__file__).parents[2] / "experiments/results"
WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 640, 300, 64, 20, 44, 52
EPISODES = 10  # An evaluation must have ten episodes or more.


@dataclass(frozen=True)
class Curve:
    """A `Curve` is a picture of one or several runs of one game."""

    title: str
    x: str
    unit: float
    """Divisor of the x axis."""
    tick: float
    """Step of the ticks of the x axis, in its unit."""
    runs: tuple[tuple[str, str], ...]
    """Folder and label of each run."""
    scores: tuple[float, ...] = (-20, -10, 0, 10, 20)
    """Ticks of the y axis."""
    low: float = -21.0
    high: float = 21.0
    published: tuple[float, str] | None = None
    """A published score, and its label."""


CURVES = {
    "pong_ppo": Curve(
        "PPO on Pong", "env_steps", 1e6, 0.25, (("pong_ppo_winograd", "Xeon"), ("pong_ppo_wide", "EPYC"))
    ),
    "pong_a2c": Curve("A2C on Pong", "env_steps", 1e6, 0.5, (("pong_a2c_seed1", "seed 1"),)),
    "pong_a3c": Curve("A3C on Pong, two ranks", "env_steps", 1e6, 1.0, (("pong_a3c", "seed 1"),)),
    "pong_rainbow": Curve("epsilon-Rainbow on Pong", "env_steps", 1e6, 0.1, (("pong_rainbow", "seed 1"),)),
    "pong_dqn": Curve(
        "DQN and Gorila on Pong", "updates", 1e3, 50.0,
        (("pong_dqn_single", "one learner"), ("pong_gorila", "Gorila, two bundles")),
    ),
    "breakout_pqn": Curve(
        "PQN on Breakout", "env_steps", 1e6, 2.0, (("suite/pqn_breakout_seed1", "seed 1"),),
        scores=(0, 100, 200, 300, 400), low=-10.0, high=440.0, published=(385, "CleanRL's PQN, 3 seeds: 385"),
    ),
}  # fmt: skip
UNITS = {"env_steps": "million env steps", "updates": "thousand updates"}


def read(run: str, x: str, y: str) -> list[tuple[float, float]]:
    """Return two columns of a run, where both columns have a value."""
    with open(RESULTS / run / "metrics.csv", newline="") as f:
        rows = [row for row in csv.DictReader(f) if row.get(x) and row.get(y)]
    if y == "eval_score":
        rows = [row for row in rows if float(row["eval_episodes"]) >= EPISODES]
    return [(float(row[x]), float(row[y])) for row in rows]


def draw(name: str) -> str:
    c = CURVES[name]
    found = [(label, read(run, c.x, "score"), read(run, c.x, "eval_score")) for run, label in c.runs]
    most = max(point[0] for _, online, _ in found for point in online) / c.unit
    d = Drawing(WIDTH, HEIGHT, c.title)
    right, bottom = WIDTH - RIGHT, HEIGHT - BOTTOM

    def place(point: tuple[float, float]) -> tuple[float, float]:
        across = point[0] / c.unit / most
        return LEFT + across * (right - LEFT), bottom - (point[1] - c.low) / (c.high - c.low) * (bottom - TOP)

    d.text(LEFT, 22, c.title, 15, bold=True)
    for score in c.scores:
        y = place((0, score))[1]
        d.line(LEFT, y, right, y, LINE)
        d.text(LEFT - 8, y + 5, f"{score:g}".replace("-", "−"), 13, GREY, "end")
    for i in range(int(most / c.tick + 1e-9) + 1):
        at = place((i * c.tick * c.unit, c.low))[0]
        d.line(at, bottom, at, bottom + 5, GREY)
        d.text(at, bottom + 20, f"{i * c.tick:g}", 13, GREY, "middle")
    d.text((LEFT + right) / 2, HEIGHT - 10, UNITS[c.x], 13, GREY, "middle")
    d.text(18, (TOP + bottom) / 2, "score", 13, GREY, "middle", turned=True)
    for i, ((label, online, evaluations), colour) in enumerate(zip(found, (BLUE, ORANGE, GREEN), strict=False)):
        d.path([place(p) for p in online], colour)
        for p in evaluations:
            d.dot(*place(p), colour)
        d.line(LEFT + 12, TOP + 14 + 20 * i, LEFT + 36, TOP + 14 + 20 * i, colour, 2)
        d.text(LEFT + 44, TOP + 19 + 20 * i, label, 13, INK)
    if c.published is not None:
        y = place((0, c.published[0]))[1]
        d.line(LEFT, y, right, y, ORANGE)
        d.text(right, y - 6, c.published[1], 12, GREY, "end")
    d.text(right, 22, "line: last 100 training episodes; dot: evaluation", 12, GREY, "end")
    return d.svg()
