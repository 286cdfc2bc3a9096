"""Draws learning curves of the recorded runs from their metrics.csv: the online score, and a dot for each evaluation.
Evaluations of fewer than 10 episodes are omitted."""

import csv
from pathlib import Path

from svg import BLUE, GREEN, GREY, INK, LINE, ORANGE, Drawing

RESULTS = Path(__file__).parents[2] / "experiments/results"
WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 640, 300, 64, 20, 44, 52
LOW, HIGH = -21.0, 21.0  # minimum and maximum return of Pong
EPISODES = 10  # minimum number of episodes of an evaluation

# Maps a file to (title, x axis, divisor of x, step of its ticks, [(run, label)]).
CURVES = {
    "pong_ppo": ("PPO on Pong", "env_steps", 1e6, 0.25, [("pong_ppo_winograd", "Xeon"), ("pong_ppo_wide", "EPYC")]),
    "pong_a2c": ("A2C on Pong", "env_steps", 1e6, 0.5, [("pong_a2c_seed1", "seed 1")]),
    "pong_a3c": ("A3C on Pong, two ranks", "env_steps", 1e6, 1.0, [("pong_a3c", "seed 1")]),
    "pong_rainbow": ("epsilon-Rainbow on Pong", "env_steps", 1e6, 0.1, [("pong_rainbow", "seed 1")]),
    "pong_dqn": (
        "DQN and Gorila on Pong",
        "updates", 1e3, 50.0, [("pong_dqn_single", "one learner"), ("pong_gorila", "Gorila, two bundles")],
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
    title, x, unit, tick, runs = CURVES[name]
    found = [(label, read(run, x, "score"), read(run, x, "eval_score")) for run, label in runs]
    most = max(point[0] for _, online, _ in found for point in online) / unit
    d = Drawing(WIDTH, HEIGHT, title)
    right, bottom = WIDTH - RIGHT, HEIGHT - BOTTOM

    def place(point: tuple[float, float]) -> tuple[float, float]:
        across = point[0] / unit / most
        return LEFT + across * (right - LEFT), bottom - (point[1] - LOW) / (HIGH - LOW) * (bottom - TOP)

    d.text(LEFT, 22, title, 15, bold=True)
    for score in (-20, -10, 0, 10, 20):
        y = place((0, score))[1]
        d.line(LEFT, y, right, y, LINE)
        d.text(LEFT - 8, y + 5, f"{score}".replace("-", "−"), 13, GREY, "end")
    for i in range(int(most / tick + 1e-9) + 1):
        at = place((i * tick * unit, LOW))[0]
        d.line(at, bottom, at, bottom + 5, GREY)
        d.text(at, bottom + 20, f"{i * tick:g}", 13, GREY, "middle")
    d.text((LEFT + right) / 2, HEIGHT - 10, UNITS[x], 13, GREY, "middle")
    d.text(18, (TOP + bottom) / 2, "score", 13, GREY, "middle", turned=True)
    for i, ((label, online, evaluations), colour) in enumerate(zip(found, (BLUE, ORANGE, GREEN), strict=False)):
        d.path([place(p) for p in online], colour)
        for p in evaluations:
            d.dot(*place(p), colour)
        d.line(LEFT + 12, TOP + 14 + 20 * i, LEFT + 36, TOP + 14 + 20 * i, colour, 2)
        d.text(LEFT + 44, TOP + 19 + 20 * i, label, 13, INK)
    d.text(right, 22, "line: last 100 training episodes; dot: evaluation", 12, GREY, "end")
    return d.svg()
