"""Every number in README's results is in a recorded run, a benchmark's page, or a file of published scores."""

import csv
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text()
RUNS, BENCHMARKS = ROOT / "experiments/results", ROOT / "benchmarks/results"


def rows(run):
    with open(RUNS / run / "metrics.csv", newline="") as f:
        return list(csv.DictReader(f))


def evaluations(run):
    """Return [(env steps, score, seconds)], one entry per evaluation of a recorded run."""
    return [tuple(float(r[k]) for k in ("env_steps", "eval_score", "wall_s")) for r in rows(run) if r["eval_score"]]


def cell(page, line, column, n=0):
    """Return a cell of a table on a benchmark's page: in the n-th row that begins with the cell `line`."""
    found = [x for x in (BENCHMARKS / page).read_text().splitlines() if x.startswith(f"| {line} |")]
    return found[n].split("|")[column].strip()


def published(source, game):
    with open(ROOT / "accel_rl/papers/libraries/scores.csv", newline="") as f:
        return next(float(r["mean"]) for r in csv.DictReader(f) if (r["source"], r["game"]) == (source, game))


def minutes(seconds):
    return f"{seconds / 60:.1f}"


def pong_seeds():
    last = [evaluations(f"pong_pqn/seed{seed}")[-1] for seed in range(5)]
    times = [s for _, _, s in last]
    return [f"{min(times) / 60:.1f}", f"{max(times) / 60:.1f}", *(f"{score:.1f}" for _, score, _ in last)]


def ppo():
    _, score, seconds = evaluations("pong_ppo_wide")[-1]
    return [f"{score:.1f}", f"{seconds / 60:.0f}"]


def of_suite(run, source):
    """Return a suite run's final evaluation and training scores and CPU-hours, and the game's published score."""
    game, run = run.partition("_")[2].rpartition("_")[0], f"suite/{run}"
    last = rows(run)[-1]
    score = float(last["score"])
    return [
        f"{evaluations(run)[-1][1]:,.0f}",
        f"{score:,.0f}" if score > 1000 else f"{score:.1f}",
        f"{float(last['cpu_s']) / 3600:.1f}",
        f"{published(source, game):,.0f}",
    ]


def h200():
    _, score, seconds = evaluations("pong_pqn_h200")[-1]
    return [f"{score:.1f}", f"{seconds:.0f}"]


def peers(column):
    """Return our emulator's frames/s, and the ratios to AtariVectorEnv and EnvPool, each in its faster mode."""

    def better(peer):
        return min(float(cell("peers_epyc.md", name, column + 1)) for name in (peer, f"{peer} {MODES[peer]}"))

    return [cell("peers_epyc.md", "accel_rl", column), *(f"{better(p):.1f}" for p in MODES)]


MODES = {"AtariVectorEnv": "send/recv", "EnvPool": "async"}


def trained(algorithm, n):
    """Return our env steps/s in training, and the ratio to those of SB3."""
    rate = cell("train_epyc.md", algorithm, 3, n)
    return [rate, f"{float(rate.replace(',', '')) / float(cell('train_epyc.md', algorithm, 9, n)):.1f}"]


def without_avx512():
    names = ("ppo, another EPYC, with AVX2 and without AVX-512", "a2c, the same", "dqn, the same")
    found = [trained(name, 0) for name in names]
    return [rate for rate, _ in found] + [ratio for _, ratio in found]


def gpu():
    a2c = (BENCHMARKS / "gpu_h100.md").read_text().partition("| A2C, 5 steps")[2]
    rates = [re.search(rf"\| {kind} \| ([\d,]+)", a2c)[1] for kind in ("float32", "bfloat16")]
    frames = re.search(r"\*\*([\d,]+) frames/s of A2C training", (BENCHMARKS / "gpu_h200.md").read_text())[1]
    most = re.search(r"\| \| 512 \| ([\d,]+)", (BENCHMARKS / "gpu_h200.md").read_text())[1]
    per_s = [int(x.replace(",", "")) for x in (*rates, frames, most)]
    return [*(f"{round(x / 1000) * 1000:,}" for x in (*per_s[:2], per_s[2] / 4)), f"{per_s[3] / 1e6:.1f}"]


PQN_OF_CLEANRL = "CleanRL, pqn_atari_envpool.py"
NUMBER = r"(-?\d[\d,]*(?:\.\d+)?)"
CLAIMS = {
    "PQN, the first command | #, #, #, #, # (five seeds": lambda: pong_seeds()[2:],
    "1.8 M | # to # minutes": lambda: pong_seeds()[:2],
    "PQN | # | 1 M | # seconds": h200,
    "PPO | # (two other seeds": lambda: ppo()[:1],
    "1.5 M | # minutes": lambda: ppo()[1:],
    "Breakout | PQN | # (# in training) | 10 M | # CPU-hours | two cores of an AMD EPYC | #, CleanRL": lambda: of_suite(
        "pqn_breakout_seed1", PQN_OF_CLEANRL
    ),
    "Breakout | PPO | # (# in training) | 10 M | # CPU-hours | an H200 that five runs shared, then two cores | #, "
    "CleanRL": lambda: of_suite("ppo_breakout_seed1", "CleanRL, ppo_atari.py"),
    "Space Invaders | PQN | # (# in training) | 10 M | # CPU-hours | the same | #, CleanRL": lambda: of_suite(
        "pqn_space_invaders_seed1", PQN_OF_CLEANRL
    ),
    "random actions, 64 environments | # | # x AtariVectorEnv, # x EnvPool": lambda: peers(3),
    "A3C-Net acting | # | # x AtariVectorEnv, # x EnvPool": lambda: peers(6),
    "training PPO, CleanRL's settings | # | # x SB3": lambda: trained("ppo", 1),
    "training A2C, SB3's settings | # | # x SB3": lambda: trained("a2c", 1),
    "training DQN, a batch of 32 every 4 steps | # | # x SB3": lambda: trained("dqn", 0),
    "CPU without AVX-512 | #, #, # | #, #, # x SB3": without_avx512,
    "A2C reached # env steps/s in float32 and # in bfloat16 (1,020 environments on 15 CPU cores), and on the H200 # in "
    "float32 (8,192 environments emulated on the GPU).": lambda: gpu()[:3],
    "(# M with 8,192 environments of Pong on the H100)": lambda: gpu()[3:],
}
"""Maps sentences of README, with # for each number, to functions that read these numbers from files."""


EXPLAINED = {
    "57": "games", "13": "inexact games", "9": "games with taller screens", "104": "ale-py's games", "2": "GPL-2",
    "10": "the goal of M frames/s, and M env steps", "100": "episodes of the score", "30": "episodes of an evaluation",
    "64": "environments", "1,020": "environments", "8,192": "environments",
    "16": "cores", "15": "cores", "21": "the highest score", "12.5": "a run whose file is not kept",
    "6.5": "a run whose file is not kept", "0.75": "its M env steps", "1.00": "its M env steps", "1.8": "M env steps",
    "1": "M env steps", "1.5": "M env steps",
    "3": "% of workers in Python", "6": "% of workers in Python", "0": "a seed",
}  # fmt: skip
"""Maps numbers that need not be in a file to their meaning."""
RANGES = re.compile(r"\([\d.]+ to [\d.]+(?: by turn)?\)")
NO_CLAIM = re.compile(
    r"```.*?```|`[^`]*`|\]\([^)]*\)|\d{4}-\d\d-\d\d|\d+x\d+|\bH[12]00\b|ale-py [\d.]+|AVX-?\d+|A3C|C51|float32", re.S
)


def searched(sentence):
    pattern = NUMBER.join(re.escape(part) for part in sentence.split("#")).replace(r"\ ", r"\s+")
    return re.compile(pattern)


def test_no_number_is_without_a_file():
    results = README.partition("## Results")[2].partition("## How it works")[0]
    text = results + README.partition("## What is not there yet")[2]
    for sentence in CLAIMS:
        text = searched(sentence).sub("", text)
    text = NO_CLAIM.sub("", RANGES.sub("", text))
    assert {n for n in re.findall(r"\d[\d,.]*\d|\d", text) if n not in EXPLAINED} == set()


@pytest.mark.parametrize("sentence", CLAIMS)
def test_a_number_is_that_of_its_file(sentence):
    found = searched(sentence).search(README)
    assert found, "README has another sentence: change it here, too"
    assert list(found.groups()) == CLAIMS[sentence]()
