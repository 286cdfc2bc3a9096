"""Dalton & Frosio 2020 (arXiv:1907.08467), Table 3 and Figure 5, train A2C with V-trace on several batches per sampled
window.

`accel-rl sweep dalton:table_3` runs all columns and games, and `accel-rl report` of the sweep's folder prints the
paper's table. `accel-rl train dalton:table_3 --game pong` trains one column. `python -m benchmarks.cuda_emulator`
measures the speed of emulation, inference and training with several numbers of environments (Figures 2 to 4, Table 4).
"""

from dataclasses import replace
from typing import Any

from accel_rl.papers.stooke.stooke_settings import together
from accel_rl.settings.train import TrainConfig, default_config
from accel_rl.sweeps.grid import Level, levels

REPORT = "accel_rl.papers.dalton.dalton_tables"
GAMES = ("assault", "asterix", "ms_pacman", "pong")
STEPS = 20_000_000
"""The length of a run is 20 million env steps, which are 80 million emulated frames. The slowest run in the paper
reaches the target score after 18 million training frames; a training frame is an env step (footnote 2)."""

EVALUATION_INTERVAL = 500_000
"""The agent is evaluated every 500,000 env steps, because Table 3 reports multiples of half a million frames."""

BATCHES = {1: (5, 5), 5: (5, 1), 20: (20, 1)}
"""`BATCHES` maps the number of batches to (N, SPU): the number of steps in the window of an update, and the number of
steps between two updates."""

COLUMNS = {  # Maps each column of Table 3 to (engine, environments per rank, batches, ranks).
    "cpu-120-1": ("workers", 120, 1, 1),
    "cpu-120-5": ("workers", 120, 5, 1),
    "cpu-120-20": ("workers", 120, 20, 1),
    "cpu-1200-20": ("workers", 1200, 20, 1),
    "gpu-1200-1": ("device", 1200, 1, 1),
    "gpu-1200-5": ("device", 1200, 5, 1),
    "gpu-1200-20": ("device", 1200, 20, 1),
    "gpu-4x1200-20": ("device", 1200, 20, 4),
}


@levels(Level({"game": GAMES}), Level({"column": tuple(COLUMNS)}), seeds=(0, 1, 2))
def table_3(game: str = "pong", column: str = "cpu-120-20", seed: int = 0) -> TrainConfig:
    """One column of Table 3 of Dalton & Frosio 2020. Environments are emulated on CPU cores (in the paper: OpenAI Gym)
    or on the learner's GPU (in the paper: CuLE).

    The paper specifies pictures of 84x84 and, with `gpu`, CuLE's 30 cached start states. This project chose the network
    of Mnih et al. 2015 with 1.7 million parameters, because the paper reports 4 million parameters but no layers. The
    learning rate is A2C's, scaled with the batch size, because the paper reports no learning rate.
    """
    if column not in COLUMNS:
        raise ValueError(f"column={column!r} is not in Table 3: {', '.join(COLUMNS)}")
    engine, envs, batches, ranks = COLUMNS[column]
    window, steps_per_update = BATCHES[batches]
    base = default_config("impala")
    algo: Any = base.algo
    config = replace(
        base,
        env=replace(base.env, game=game, frame="84x84"),
        algo=replace(algo, batches=batches, window=window, network="nature"),
        sampler=replace(
            base.sampler,
            envs=envs * ranks,
            horizon=steps_per_update,
            engine=engine,
            reset="cached" if column.startswith("gpu") else "immediate",
        ),
        evaluation=replace(base.evaluation, interval=EVALUATION_INTERVAL),
        env_steps=STEPS,
        seed=seed,
    )
    return together(config, ranks) if ranks > 1 else config
