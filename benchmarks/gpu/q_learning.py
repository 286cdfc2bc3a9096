"""DQN, C51 and Rainbow with the batches of Stooke & Abbeel 2018, table 3, and DQN with the concurrent schedule."""

from dataclasses import replace
from typing import Any

from accel_rl.config.train import TrainConfig
from benchmarks.gpu import variants
from benchmarks.gpu.bench import Bench, Result
from benchmarks.gpu.training import envs_near, settings

CONCURRENT = "concurrent schedule"
LEAST = {"dqn": 16_700.0, "c51": 15_400.0}


def settings_of(bench: Bench, algorithm: str, concurrent: bool = False) -> TrainConfig:
    """Return the settings of an algorithm with its batch size."""
    sizes, batch = bench.sizes, dict(bench.sizes.batches)[algorithm]
    envs = envs_near(sizes.q_envs, bench, concurrent)
    config = settings(
        bench, algorithm, envs, batch_size=batch, target_interval=sizes.target_interval, intensity=sizes.intensity,
        network=sizes.q_network,
    )  # fmt: skip
    algo: Any = config.algo
    algo = replace(algo, replay=replace(algo.replay, size=sizes.replay_size, start=sizes.replay_start))
    config = replace(config, algo=algo)
    if not concurrent:
        return config
    T = config.T
    period = max(1, round(sizes.target_interval / (T * envs))) * T * envs
    return replace(
        config,
        algo=replace(algo, target_interval=period),
        sampler=replace(config.sampler, horizon=T),
        schedule="concurrent",
    )


def measure(bench: Bench, algorithm: str) -> Result:
    name = f"{'Rainbow' if algorithm == 'rainbow' else algorithm.upper()}-{dict(bench.sizes.batches)[algorithm]}"
    more = {CONCURRENT: settings_of(bench, algorithm, concurrent=True)}
    return variants.measure(bench, name, settings_of(bench, algorithm), more, LEAST.get(algorithm))
