"""Measures sampling speed with a trained A3C-Net on Breakout (Stooke & Abbeel 2018, section 5.2).

The experiment figure_2 measures env steps/s per core against simulators per core, on one GPU. The experiment first
trains a policy, unless --policy names a run. The paper's Table 1, with 8 learners, is a sweep: `accel-rl sweep
stooke:table_1`.

    | python -m experiments.sampling figure_2 --device cuda --out sampling.png

`--scale 0.1` shortens the measurements, and the training before them, to a tenth.
"""

import json
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from accel_rl.machine import hardware
from accel_rl.parsing.arguments import parse, positionals
from accel_rl.processes import child
from accel_rl.text.counts import Count
from accel_rl.text.errors import ConfigError, RunError, ended, nearest
from accel_rl.training.stored_agents import check_policy

CORES = (1, 2, 4, 8, 16)  # Figure 2 has curves for 1, 2, 4, 8 and 16 cores.
PER_CORE = (2, 4, 8, 16, 32, 64)  # Numbers of simulators per core in Figure 2; two groups need at least two simulators.
EXPERIMENT = "figure_2"


@dataclass(frozen=True)
class Options:
    device: str = "cpu"
    """Device of the network (the paper: a P100)."""
    scale: float = 1.0
    """Factor by which the length of the measurements, and of the training before figure_2, is multiplied."""
    games: tuple[str, ...] = ("breakout",)
    """Games, with a panel for each game."""
    workers: tuple[int, ...] = ()
    """Number of worker processes of each curve, by default 1, 2, 4, 8 and 16, up to the number of cores."""
    policy: str = ""
    """Folder of an A2C or PPO run on Breakout, whose newest checkpoint acts; by default, a policy is trained first."""
    train_steps: Count = 1_000_000
    """Number of env steps of A2C's training, without --policy. With 0, the network is untrained."""
    out: str = ""
    """PNG file of the figure."""


def check(o: Options) -> None:
    """Raise ConfigError, with a message of one line, for impossible options."""
    if not 0 < o.scale <= 1:
        raise ConfigError(f"--scale {o.scale}: must be above 0 and at most 1")
    if o.train_steps < 0:
        raise ConfigError(f"--train-steps {o.train_steps}: must be 0 or more")
    if o.out and not Path(o.out).absolute().parent.is_dir():
        raise ConfigError(f"--out {o.out}: there is no folder {Path(o.out).absolute().parent}")
    if o.policy:
        check_policy("--policy", o.policy)


def figure_2(o: Options, policy: str) -> list[str]:
    """Arguments of `benchmarks.sampler` for Figure 2."""
    workers = o.workers or tuple(n for n in CORES if n <= len(hardware.allowed_cores()))
    words = ["--game", *o.games, "--nets", "a3c", "--device", o.device, "--horizon", "20", "--one-core"]
    words += ["--seconds", str(4.0 * o.scale), "--workers", *map(str, workers)]
    words += ["--envs-per-worker", *map(str, PER_CORE)]
    return words + (["--policy", policy] if policy else [])


@contextmanager
def trained(o: Options) -> Iterator[str]:
    """The folder of a run with the policy that acts, or "" for an untrained network. Raises RunError if training
    fails."""
    steps = round(o.train_steps * o.scale)
    if o.policy or not steps:
        yield o.policy
        return
    with tempfile.TemporaryDirectory() as folder:
        run = Path(folder) / "policy"
        words = ["train", "a2c", "--game", o.games[0], "--env-steps", steps, "--evaluation.interval", 0]
        words += ["--device", o.device, "--run-dir", run]
        if code := subprocess.run(child.command("accel_rl", *map(str, words)), env=child.environment()).returncode:
            raise RunError(f"the training of the policy ended with exit code {code}")
        yield str(run)


def main(argv: list[str]) -> int:
    """Return the exit code: 0 if all is done, 1 if a run failed, 2 for wrong options."""
    return ended("experiments.sampling", sampling, argv)


def sampling(argv: list[str]) -> int:
    words, options = positionals(argv, [EXPERIMENT], "python -m experiments.sampling")
    o = parse(Options, options, "python -m experiments.sampling figure_2", __doc__ or "")
    if words[0] != EXPERIMENT:
        raise ConfigError(f"{words[0]!r} is unknown: must be {EXPERIMENT}{nearest(words[0], [EXPERIMENT])}")
    check(o)
    from benchmarks.sampler import main as measure

    with trained(o) as policy, tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "sampling.json"
        code = measure([*figure_2(o, policy), "--json", str(file)])
        if o.out and not code:
            figure(json.loads(file.read_text())["results"], Path(o.out))
    return code


ONE_CORE = {"process": "one process on one core", "hyperthreads": "one on each hyperthread of a core"}


def curves(results: list[dict[str, Any]]) -> dict[str, list[tuple[float, float]]]:
    """Return {label: sorted [(environments per core, env steps/s per core)]} for the samplers of one game."""
    result: dict[str, list[tuple[float, float]]] = {}
    for r in results:
        for title, s in r.get("samplers", {}).items():
            label = f"{r['actions']}, {r['workers']} workers, {s['groups']} groups, T {s['T']}, {s['reset']}"
            result.setdefault(label, []).append((s["B"] / r["cores"], r["median"][title] / r["cores"]))
    return {label: sorted(points) for label, points in result.items()}


def levels(results: list[dict[str, Any]], game: str) -> dict[str, float]:
    """Env steps/s per core without inference: measured on one core if available, otherwise the mean over all cores."""
    for r in results:
        if "samplers" not in r:
            return {ONE_CORE[name]: rate for name, rate in r["median"].items()}
    rates = [r["median"]["environment_only"] / r["cores"] for r in results if r["game"] == game]
    return {"environment only": statistics.mean(rates)}


def figure(results: list[dict[str, Any]], path: Path) -> None:
    """Draw a panel for each game, with horizontal lines for rates without inference."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    games = list(dict.fromkeys(r["game"] for r in results))
    fig, axes = plt.subplots(1, len(games), figsize=(6 * len(games), 4.5), squeeze=False)
    for game, ax in zip(games, axes[0], strict=True):
        ticks: set[float] = set()
        for label, points in curves([r for r in results if r["game"] == game]).items():
            ax.plot(*zip(*points, strict=True), "o-", label=label)
            ticks |= {x for x, _ in points}
        for (name, level), style in zip(levels(results, game).items(), ("--", ":"), strict=False):
            ax.axhline(level, color="black", linestyle=style, label=f"{name}, no inference")
        ax.set(title=game, xlabel="environments per core", ylabel="env steps/s per core", ylim=(0, None))
        ax.set_xscale("log", base=2)
        ax.set_xticks(sorted(ticks), [f"{x:g}" for x in sorted(ticks)])
        ax.legend(fontsize=7)
    fig.tight_layout()
    fig.savefig(path, dpi=120)
    plt.close(fig)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
