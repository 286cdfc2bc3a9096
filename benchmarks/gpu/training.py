"""Training of every algorithm: captured or not, in several precisions, with both schedules; Daley's variants; Pong."""

import contextlib
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from accel_rl.config.train import TrainConfig, default_config
from accel_rl.metrics.recorder import episode_metrics
from accel_rl.papers.daley import FOURTEEN, VARIANTS, speed_test
from accel_rl.papers.published import published_by
from accel_rl.system.placement import place_processes
from benchmarks.gpu.bench import Bench, Goal, Result
from benchmarks.harness.training import FOREVER, Training
from benchmarks.harness.turns import medians

GROUPS = 2
COLUMNS = ("variant", "environments", "training, env steps/s", "updates/s in training", "us an update alone")
CAPTURED, FROM_PYTHON, CONCURRENT = "captured updates", "updates from Python", "concurrent schedule"
LEAST = {"a2c": 100_000.0, "ppo": 50_000.0, "dqn": 16_700.0, "c51": 15_400.0}
"""Env steps/s that the best variant is to reach."""
DALEY_COLUMNS = ("samplers", "variant", "env steps/s", "hours for 50 M", "speed-up", "the paper's speed-up")
DALEY_BOTH = 1_543.0
"""Env steps/s of the fastest variant of Daley & Amato 2021: 8 samplers, both features."""
PONG_COLUMNS = ("seconds", "env steps", "score of the last 100 episodes", "env steps/s since the last row")
PONG_STEPS = 10_000_000
"""Length of the schedules of the learning rate and the clip range in Pong."""
EPISODES = 20
"""Fewest episodes of a score that counts."""


def envs_near(wanted: int, bench: Bench, concurrent: bool = False) -> int:
    """Return the number of environments nearest to `wanted` that every core steps an equal part of."""
    workers = 1 if bench.sizes.in_process else place_processes(device=bench.device, concurrent=concurrent).workers
    return max(1, round(wanted / (GROUPS * workers))) * GROUPS * workers


def settings(bench: Bench, algorithm: str, envs: int, horizon: int | None = None, **algo: Any) -> TrainConfig:
    """Return an algorithm's default settings for a measurement. algo: its settings that differ."""
    base = default_config(algorithm)
    sampler = replace(
        base.sampler, envs=envs, groups=GROUPS, horizon=horizon or base.sampler.horizon,
        decorrelation_steps=bench.sizes.decorrelation_steps,
        engine="in-process" if bench.sizes.in_process else "workers",
    )  # fmt: skip
    return replace(
        base, env=replace(base.env, game=bench.game).resolved(), algo=replace(base.algo, **algo), sampler=sampler,
        evaluation=replace(base.evaluation, interval=0), env_steps=FOREVER, device=bench.device,
    )  # fmt: skip


def build(bench: Bench, name: str, config: TrainConfig) -> Training:
    """Build a warm run."""
    folder = bench.folder / name.replace(" ", "-")
    return Training(config, folder, bench.sizes.warm_cycles, bench.sizes.at_once)


def policy_gradient(bench: Bench, algorithm: str) -> Result:
    """Measure A2C or PPO."""
    sizes, envs = bench.sizes, envs_near(bench.sizes.policy_envs, bench)
    if algorithm == "a2c":
        return variants(bench, "a2c", settings(bench, "a2c", envs))
    config = settings(bench, "ppo", envs, sizes.ppo_horizon, minibatch=sizes.ppo_minibatch)
    result = variants(bench, "ppo", config)
    result.notes.insert(0, f"rollouts of {sizes.ppo_horizon} steps, minibatches of {sizes.ppo_minibatch}, 4 epochs")
    return result


def q_settings(bench: Bench, algorithm: str, concurrent: bool = False) -> TrainConfig:
    """Return the settings of DQN, C51 or Rainbow with the batch of Stooke & Abbeel 2018, table 3."""
    sizes, envs = bench.sizes, envs_near(bench.sizes.q_envs, bench, concurrent)
    config = settings(
        bench, algorithm, envs, batch_size=dict(sizes.batches)[algorithm], target_interval=sizes.target_interval,
        intensity=sizes.intensity, network=sizes.q_network,
    )  # fmt: skip
    algo: Any = config.algo
    algo = replace(algo, replay=replace(algo.replay, size=sizes.replay_size, start=sizes.replay_start))
    if not concurrent:
        return replace(config, algo=algo)
    each = config.T * envs
    period = max(1, round(sizes.target_interval / each)) * each
    sampler = replace(config.sampler, horizon=config.T)
    return replace(config, algo=replace(algo, target_interval=period), sampler=sampler, schedule="concurrent")


def q_learning(bench: Bench, algorithm: str) -> Result:
    """Measure DQN, C51 or Rainbow with both schedules."""
    more = {CONCURRENT: q_settings(bench, algorithm, concurrent=True)}
    return variants(bench, algorithm, q_settings(bench, algorithm), more)


def variants(bench: Bench, name: str, config: TrainConfig, more: dict[str, TrainConfig] | None = None) -> Result:
    """Measure the variants of a configuration, and `more`, in turns."""
    more = more or {}
    configs = {CAPTURED: config, FROM_PYTHON: replace(config, capture_updates=False)}
    configs |= {precision: replace(config, precision=precision) for precision in bench.sizes.precisions} | more
    updates_per_s: dict[str, list[float]] = {variant: [] for variant in configs}

    def training(variant: str, run: Training, seconds: float) -> float:
        rate = run.training(seconds)
        updates_per_s[variant].append(run.updates_per_s)
        return rate

    with contextlib.ExitStack() as stack:
        parts: dict[str, Callable[[float], float]] = {}
        built: dict[str, Training] = {}
        for variant, its in configs.items():
            run = built[variant] = build(bench, f"{name} {variant}", its)
            stack.callback(run.close)
            parts[f"{variant}, training"] = lambda s, variant=variant, run=run: training(variant, run, s)  # type: ignore[misc]
            parts[f"{variant}, updates"] = run.updates
        parts |= {"sampling alone": built[CAPTURED].sampling, "learning alone": built[CAPTURED].learning}
        found = bench.turns(parts)
        notes = [f"{variant}: {line}" for variant, run in built.items() for line in run.notes()]
    m, rates = medians(found), medians(updates_per_s)
    rows = [[v, c.sampler.envs, m[f"{v}, training"], rates[v], 1e6 / m[f"{v}, updates"]] for v, c in configs.items()]
    rows += [[part, config.sampler.envs, m[part], None, None] for part in ("sampling alone", "learning alone")]
    slower = min(m["sampling alone"], m["learning alone"])
    reached = max(m[f"{variant}, training"] for variant in (CAPTURED, *more))
    title = f"{name}: training below the slower of sampling and learning, percent"
    goals = [Goal(title, 100 * (1 - reached / slower), 10.0, at_least=False)]
    if name in LEAST:
        best = max(configs, key=lambda v: m[f"{v}, training"])
        goals.append(Goal(f"{name}: env steps/s, best variant ({best})", m[f"{best}, training"], LEAST[name]))
    return Result(COLUMNS, rows, goals, notes, {"measurements": found, "updates_per_s": updates_per_s})


def daley_settings(bench: Bench, samplers: int, variant: str) -> TrainConfig:
    """Return the settings of a variant of Daley & Amato 2021, with a smaller replay."""
    sizes, config = bench.sizes, speed_test(samplers, variant)
    algo: Any = config.algo
    memory = replace(algo.replay, size=4 * sizes.daley_start, start=sizes.daley_start)
    algo = replace(algo, replay=memory, target_interval=sizes.period, network=sizes.daley_network)
    return replace(config, algo=algo, device=bench.device, env_steps=FOREVER)


def daley(bench: Bench) -> Result:
    """Measure whole training of the 14 variants of Daley & Amato 2021 in turns, each in worker processes."""
    wanted = [(n, variant) for n, variant in FOURTEEN if n in bench.sizes.samplers]
    with contextlib.ExitStack() as stack:
        built: dict[str, Training] = {}
        for n, variant in wanted:
            run = built[f"{n} {variant}"] = build(bench, f"daley {n} {variant}", daley_settings(bench, n, variant))
            stack.callback(run.close)
        found = bench.turns({name: run.training for name, run in built.items()})
        notes = list(dict.fromkeys(line for run in built.values() for line in run.notes()))
    m, paper, rows = medians(found), published_by("daley")["table_3"]["threads"], []
    first = next(iter(m.values()))
    for (n, variant), rate in zip(wanted, m.values(), strict=True):
        rows.append([n, variant, rate, 50e6 / rate / 3600, rate / first, paper[str(n)][VARIANTS.index(variant)]])
    name = f"{max(bench.sizes.samplers)} both"
    goals = [Goal(f"Daley & Amato, {name}: env steps/s", m[name], 10 * DALEY_BOTH)] if name in m else []
    return Result(DALEY_COLUMNS, rows, goals, notes, found)


def pong(bench: Bench) -> Result:
    """Measure the wall clock until PPO plays Pong, with the curve."""
    result, wanted = Result(PONG_COLUMNS), bench.sizes.pong_score
    bench = replace(bench, game="pong", sizes=replace(bench.sizes, warm_cycles=0))
    config = settings(bench, "ppo", envs_near(bench.sizes.pong_envs, bench), bench.sizes.pong_horizon)
    begin, score, every = time.monotonic(), float("nan"), bench.left / 60
    run = build(bench, "pong", replace(config, env_steps=PONG_STEPS))
    steps, last, last_steps = config.T * config.sampler.envs, begin, 0  # the first cycle
    with contextlib.closing(run):
        while bench.left and steps < PONG_STEPS:
            run.learner.algo.now.progress = steps / PONG_STEPS
            steps += run.schedule.cycle(PONG_STEPS - steps)[0]
            recent = list(run.sampler.episodes.recent)
            score, now = episode_metrics(recent)["score"], time.monotonic()
            reached = len(recent) >= EPISODES and score >= wanted
            if reached or now - last >= every:
                row = [now - begin, steps, None if score != score else score, (steps - last_steps) / (now - last)]
                result.rows.append(row)
                last, last_steps = now, steps
            if reached:
                break
        result.notes = run.notes()
    result.goals.append(Goal("Pong: score", -21.0 if score != score else score, wanted))
    result.notes.insert(0, f"PPO with its default settings, {config.sampler.envs} environments x {config.T} steps")
    return result
