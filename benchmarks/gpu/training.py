"""Measures training on a GPU: with and without CUDA graphs, in several precisions, and with --schedule lockstep and
concurrent."""

from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from typing import Any

from accel_rl.machine.placement import place_processes
from accel_rl.papers.daley import FOURTEEN, VARIANTS, speed_test
from accel_rl.papers.published import published_by
from accel_rl.settings.train import TrainConfig, default_config
from benchmarks.gpu.bench import Bench, Goal, Result
from benchmarks.harness.measured_training import FOREVER
from benchmarks.harness.program import Case
from benchmarks.harness.training import Training
from benchmarks.harness.turns import Measure, Measurements, medians

GROUPS = 2
CAPTURED, FROM_PYTHON, CONCURRENT = "captured updates", "updates from Python", "concurrent schedule"
LEAST = {"a2c": 100_000.0, "ppo": 50_000.0, "impala": 40_000.0, "dqn": 16_700.0, "c51": 15_400.0}
"""Goals in env steps/s for the fastest variant of each algorithm."""
STEPS = 50_000_000
DALEY_BOTH = 1_543.0
"""Env steps/s of the fastest variant of Daley & Amato 2021, with 8 samplers."""


def envs_near(wanted: int, bench: Bench, concurrent: bool = False) -> int:
    """Return the number nearest to `wanted` of environments that can be divided evenly among groups and worker
    processes."""
    workers = 1 if bench.sizes.in_process else place_processes(device=bench.device, concurrent=concurrent).workers
    return max(1, round(wanted / (GROUPS * workers))) * GROUPS * workers


def settings(bench: Bench, algorithm: str, envs: int, horizon: int | None = None, **algo: Any) -> TrainConfig:
    """Return an algorithm's settings for a measurement. `algo` are changes of the algorithm's default settings."""
    base = default_config(algorithm)
    sampler = replace(
        base.sampler, envs=envs, groups=GROUPS, horizon=horizon or base.sampler.horizon,
        decorrelation_steps=bench.sizes.decorrelation_steps,
        engine="in-process" if bench.sizes.in_process else "workers",
    )  # fmt: skip
    return replace(
        base, env=replace(base.env, game=bench.game), algo=replace(base.algo, **algo), sampler=sampler,
        evaluation=replace(base.evaluation, interval=0), env_steps=FOREVER, device=bench.device,
    )  # fmt: skip


def build(bench: Bench, name: str, config: TrainConfig) -> Training:
    """Build a training run, and let it warm up."""
    folder = bench.folder / name.replace(" ", "-")
    return Training(config, folder, bench.sizes.warm_cycles, bench.sizes.at_once)


def policy_gradient(bench: Bench, algorithm: str) -> Result:
    """Measure A2C, PPO, or IMPALA with its residual network."""
    sizes, envs = bench.sizes, envs_near(bench.sizes.policy_envs, bench)
    if algorithm == "ppo":
        return measure(bench, "ppo", settings(bench, "ppo", envs, sizes.ppo_horizon, minibatch=sizes.ppo_minibatch))
    if algorithm == "impala":  # The number of batches must divide the number of environments.
        batches = max(n for n in range(1, 6) if envs % n == 0)
        return measure(bench, "impala", settings(bench, "impala", envs, network=sizes.impala_network, batches=batches))
    return measure(bench, "a2c", settings(bench, "a2c", envs))


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
    """Measure DQN, C51 or Rainbow with the lockstep and concurrent schedules."""
    more = {CONCURRENT: q_settings(bench, algorithm, concurrent=True)}
    return measure(bench, algorithm, q_settings(bench, algorithm), more)


def measure(bench: Bench, name: str, config: TrainConfig, more: dict[str, TrainConfig] | None = None) -> Result:
    """Measure training with the settings `config`, with variants of `config` (without CUDA graphs, in other
    precisions), and with the settings `more`."""
    configs = {CAPTURED: config, FROM_PYTHON: replace(config, capture_updates=False)}
    configs |= {precision: replace(config, precision=precision) for precision in bench.sizes.precisions}
    configs |= more or {}
    notes: list[str] = []
    result = bench.run([partial(case, bench, name, configs, notes)], "a second")
    result.notes = notes
    m = result.cases[0]["median"]
    slower = min(m["sampling alone, env steps"], m["learning alone, env steps"])
    training = {variant: m[f"{variant}, env steps"] for variant in configs}
    reached = max(training[variant] for variant in (CAPTURED, *(more or ())))
    title = f"{name}: training below the slower of sampling and learning, percent"
    result.goals.append(Goal(title, 100 * (1 - reached / slower), 10.0, at_least=False))
    if name in LEAST:
        best = max(training, key=lambda variant: training[variant])
        result.goals.append(Goal(f"{name}: env steps/s, best variant ({best})", training[best], LEAST[name]))
    return result


def case(bench: Bench, name: str, configs: dict[str, TrainConfig], notes: list[str], stack: ExitStack) -> Case:
    """Build the measurements of the training of each variant. The first variant is also measured as sampling without
    learning, and as learning without sampling."""
    variants: dict[str, Measure] = {}
    built: dict[str, Training] = {}
    updates_per_s: dict[str, list[float]] = {f"{variant}, env steps": [] for variant in configs}

    def training(run: Training, rates: list[float], seconds: float) -> float:
        rate = run.training(seconds)
        rates.append(run.updates_per_s)
        return rate

    for variant, config in configs.items():
        run = built[variant] = build(bench, f"{name} {variant}", config)
        stack.callback(run.close)
        steps = f"{variant}, env steps"
        variants[steps] = partial(training, run, updates_per_s[steps])
        variants[f"{variant}, updates alone"] = run.updates
    variants["sampling alone, env steps"] = built[CAPTURED].sampling
    variants["learning alone, env steps"] = built[CAPTURED].learning

    def columns(m: Measurements) -> dict[str, dict[str, Any]]:
        notes.extend(f"{variant}: {line}" for variant, run in built.items() for line in run.notes())
        alone = {name: 1e6 / rate for name, rate in medians(m).items() if name.endswith("updates alone")}
        return {"updates/s in training": medians(updates_per_s), "us an update": alone}

    return Case({"environments": configs[CAPTURED].sampler.envs}, variants, compared=False, columns=columns)


def daley(bench: Bench) -> Result:
    """Measure training with the 14 variants of Daley & Amato 2021 in turns, with environments in worker processes."""
    notes: list[str] = []
    result = bench.run([partial(daley_case, bench, notes)])
    result.notes = list(dict.fromkeys(notes))
    name = f"{max(bench.sizes.samplers)} both"
    rate = result.cases[0]["median"].get(name)
    result.goals += [Goal(f"Daley & Amato, {name}: env steps/s", rate, 10 * DALEY_BOTH)] if rate else []
    return result


def daley_case(bench: Bench, notes: list[str], stack: ExitStack) -> Case:
    """Build the 14 variants of Daley & Amato 2021, with a smaller replay than the paper's."""
    sizes, published = bench.sizes, published_by("daley")["table_3"]["threads"]
    built: dict[str, Training] = {}
    paper: dict[str, float] = {}
    for n, variant in FOURTEEN:
        if n in sizes.samplers:
            name, config = f"{n} {variant}", speed_test(n, variant)
            algo: Any = config.algo
            memory = replace(algo.replay, size=4 * sizes.daley_start, start=sizes.daley_start)
            algo = replace(algo, replay=memory, target_interval=sizes.period, network=sizes.daley_network)
            config = replace(config, algo=algo, device=bench.device, env_steps=FOREVER)
            built[name] = build(bench, f"daley {name}", config)
            stack.callback(built[name].close)
            paper[name] = published[str(n)][VARIANTS.index(variant)]

    def columns(m: Measurements) -> dict[str, dict[str, Any]]:
        notes.extend(line for run in built.values() for line in run.notes())
        rates = medians(m)
        first = next(iter(rates.values()))
        hours = {name: STEPS / rate / 3600 for name, rate in rates.items()}
        speedup = {name: rate / first for name, rate in rates.items()}
        return {"hours for 50 M": hours, "speed-up": speedup, "the paper's": paper}

    variants = {name: run.training for name, run in built.items()}
    return Case({"game": "pong"}, variants, compared=False, columns=columns)
