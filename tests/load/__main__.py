"""Measure whether memory, descriptors and threads grow with rollouts, updates, and trainings in one process.

    python -m tests.load                                        # the full size; hours
    python -m tests.load --workers 16 --envs 256 --rollouts 400 --updates 20000 --trainings 60
    python -m tests.load --parts trainings --trainings 500 --json out.json

Growth is the slope of each resource over the work done after a warm-up, with a 95 % confidence interval. The program
fails if memory certainly grows by more than `--limit-mib` in a part of full size, or if descriptors, threads or
processes certainly grow.
"""

import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import accel_rl
from accel_rl.text.counts import Count
from accel_rl.text.errors import ConfigError
from benchmarks.harness.program import machine, one_of, program
from benchmarks.harness.table import table
from tests.load.growth import Usage, slope

FULL = {"sampling": 20_000, "updates": 200_000, "trainings": 500}
"""Maps each part to the amount of work (rollouts, updates, trainings) for which its growth is reported."""
SAMPLES = 40
SMALL: dict[str, Any] = {
    "env": "CartPole-v1", "engine": "in-process", "torch_threads": 1, "envs": 4, "evaluation__interval": 0,
    "decorrelation_steps": 0,
}  # fmt: skip


@dataclass(frozen=True)
class Options:
    parts: tuple[str, ...] = tuple(FULL)
    workers: int = 64
    """Number of worker processes in the part `sampling`."""
    envs: int = 1_024
    """Number of environments in the part `sampling`."""
    rollouts: Count = 20_000
    updates: Count = 200_000
    trainings: Count = 500
    limit_mib: float = 64.0
    """Allowed growth of memory in the full size of a part."""
    json: str = ""
    """Write all results also to the given JSON file."""

    def check(self) -> None:
        """Raise ConfigError if an option is impossible."""
        one_of("parts", self.parts, FULL)
        for name in ("rollouts", "updates", "trainings"):
            if getattr(self, name) < 40:
                raise ConfigError(f"--{name} {getattr(self, name)}: must be at least 40, for a slope")


def sampling(o: Options, usage: Usage) -> None:
    """Sample Pong with many worker processes."""
    settings = {"game": "pong", "workers": o.workers, "envs": o.envs, "horizon": 2, "decorrelation_steps": 0}
    with accel_rl.make_sampler("a2c", **settings) as sampler:
        for n in range(1, o.rollouts + 1):
            sampler.collect()
            if n % max(1, o.rollouts // SAMPLES) == 0:
                usage.sample(n)


def updates(o: Options, usage: Usage) -> None:
    """Train A2C by many small updates, and write about 50 rows of metrics and 20 checkpoints."""
    every = max(1, o.updates // SAMPLES)

    class Sampled(accel_rl.Callback):
        sampled = 0

        def on_rollout(self, training: Any, rollout: Any) -> None:
            if training.updates >= self.sampled + every:
                self.sampled = training.updates
                usage.sample(training.updates)

    steps = 2 * 2 * o.updates
    intervals = {"log__interval": steps // 50, "checkpoint__interval": steps // 20}
    with tempfile.TemporaryDirectory() as folder:
        accel_rl.train(
            "a2c", run_dir=Path(folder) / "run", env_steps=steps, callbacks=[Sampled()],
            **{**SMALL, "envs": 2, "groups": 1, "horizon": 2, **intervals},
        )  # fmt: skip


def trainings(o: Options, usage: Usage) -> None:
    """Run many short trainings of PPO and DQN in this process, in alternation."""
    with tempfile.TemporaryDirectory() as folder:
        for n in range(1, o.trainings + 1):
            more = {"horizon": 10, "minibatch": 20} if n % 2 else {"batch_size": 8, "replay__start": 40}
            run_dir = Path(folder) / str(n)
            accel_rl.train("ppo" if n % 2 else "dqn", run_dir=run_dir, env_steps=160, seed=n, **SMALL, **more)
            usage.sample(n)


PARTS: dict[str, Callable[[Options, Usage], None]] = {
    "sampling": sampling, "updates": updates, "trainings": trainings,
}  # fmt: skip


def run(o: Options) -> dict[str, Any]:
    """Run the chosen parts, and return the growth of each resource."""
    rows, wrong = [], []
    for part in o.parts:
        began, usage = time.monotonic(), Usage()
        PARTS[part](o, usage)
        for name, series in usage.series.items():
            rate, half = (FULL[part] * value for value in slope(usage.x, series))
            unit, limit = (1024, o.limit_mib) if name == "memory, KiB" else (1, 0.5)
            first, last = series[len(series) // 4] / unit, series[-1] / unit
            quantity = name.replace("KiB", "MiB")
            rows.append([part, int(usage.x[-1]), quantity, first, last, rate / unit, half / unit])
            if (rate - half) / unit > limit:
                wrong.append(f"{part}: {quantity} grows by {rate / unit:.1f} +- {half / unit:.1f} in {FULL[part]:,}")
        rows.append([part, int(usage.x[-1]), "seconds", None, time.monotonic() - began, None, None])
    return {"rows": rows, "wrong": wrong}


def report(o: Options, result: dict[str, Any]) -> list[str]:
    """Return the table of growth."""
    m = machine()
    head = f"{m['cpu']}, {len(m['cores'])} cores, {m['date']}"
    size = ", ".join(f"{n:,} {'rollouts' if part == 'sampling' else part}" for part, n in FULL.items())
    columns = ["part", "done", "quantity", "after the warm-up", "at the end", "growth in the full size", "95 %, +-"]
    return [head, f"full size: {size}", "", *table(columns, result["rows"]), *result["wrong"]]


if __name__ == "__main__":
    sys.exit(program("tests.load", __doc__, Options, sys.argv[1:], run, report))
