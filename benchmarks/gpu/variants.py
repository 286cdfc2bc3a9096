"""Variants of one algorithm's training, in turns: captured or not, in float32, tfloat32 or bfloat16."""

import contextlib
from collections.abc import Callable
from dataclasses import replace

from accel_rl.config.train import TrainConfig
from benchmarks.gpu.bench import Bench, Goal, Result
from benchmarks.gpu.training import Training
from benchmarks.interleave import medians

COLUMNS = ("variant", "environments", "training, env steps/s", "updates/s in training", "us an update alone")
CAPTURED = "captured updates"
FROM_PYTHON = "updates from Python"


def measure(bench: Bench, name: str, config: TrainConfig, more: dict[str, TrainConfig], least: float | None) -> Result:
    """Measure the variants of a configuration, and `more`. least: env steps/s that the best variant is to reach."""
    configs = {CAPTURED: config, FROM_PYTHON: replace(config, capture_updates=False)}
    configs |= {precision: replace(config, precision=precision) for precision in bench.sizes.precisions} | more
    updates_per_s: dict[str, list[float]] = {variant: [] for variant in configs}
    with contextlib.ExitStack() as stack:
        built: dict[str, Training] = {}
        for variant, its in configs.items():
            built[variant] = Training(bench, f"{name} {variant}", its)
            stack.callback(built[variant].close)

        def training(variant: str) -> Callable[[float], float]:
            def run(seconds: float) -> float:
                rate = built[variant].training(seconds)
                updates_per_s[variant].append(built[variant].updates_per_s)
                return rate

            return run

        parts: dict[str, Callable[[float], float]] = {}
        for variant, its in built.items():
            parts[f"{variant}, training"] = training(variant)
            parts[f"{variant}, updates"] = its.updates
        parts |= {"sampling alone": built[CAPTURED].sampling, "learning alone": built[CAPTURED].learning}
        found = bench.turns(parts)
        notes = [f"{variant}: {line}" for variant, its in built.items() for line in its.notes()]
    m, rates = medians(found), medians(updates_per_s)
    rows = [[v, c.sampler.envs, m[f"{v}, training"], rates[v], 1e6 / m[f"{v}, updates"]] for v, c in configs.items()]
    rows += [[alone, config.sampler.envs, m[alone], None, None] for alone in ("sampling alone", "learning alone")]
    slower = min(m["sampling alone"], m["learning alone"])
    whole = max(m[f"{variant}, training"] for variant in (CAPTURED, *more))
    goals = [
        Goal(f"{name}: training below the slower of sampling and learning, percent", 100 * (1 - whole / slower), 10.0,
             at_least=False)
    ]  # fmt: skip
    if least is not None:
        best = max(configs, key=lambda v: m[f"{v}, training"])
        goals.append(Goal(f"{name}: env steps/s, best variant ({best})", m[f"{best}, training"], least))
    return Result(COLUMNS, rows, goals, notes, {"measurements": found, "updates_per_s": updates_per_s})
