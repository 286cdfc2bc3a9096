"""Dalton & Frosio 2020 (arXiv:1907.08467), Table 3: A2C with V-trace, several batches per sampled window.

`accel-rl train experiments.cule:table_3 --game pong`. The columns: batches 1, 5 or 20; N 5 or 20; SPU 5 or 1.
"""

from dataclasses import replace

from accel_rl.config.train import TrainConfig, default_config

# batches -> (N-steps, SPU: steps per update)
COLUMNS = {1: (5, 5), 5: (5, 1), 20: (20, 1)}


def table_3(game: str = "pong", envs: int = 120, batches: int = 20, seed: int = 0) -> TrainConfig:
    """One column, with 120 environments, the paper's number on CPUs (1,200 on its GPU emulator)."""
    if batches not in COLUMNS:
        raise ValueError(f"batches={batches} is not in Table 3: {', '.join(map(str, COLUMNS))}")
    window, steps_per_update = COLUMNS[batches]
    base = default_config("impala")
    return replace(
        base,
        env=replace(base.env, game=game),
        algo=replace(base.algo, batches=batches, window=window),
        sampler=replace(base.sampler, envs=envs, horizon=steps_per_update),
        seed=seed,
    )


def one_batch() -> TrainConfig:
    """First column: plain A2C."""
    return table_3(batches=1)


def five_batches() -> TrainConfig:
    """Second column: 5 batches."""
    return table_3(batches=5)
