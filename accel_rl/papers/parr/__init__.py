"""Parr 2017, "Deep In-GPU Experience Replay", trains dueling DQN on vectors, with the replay on the GPU that trains.

The command `accel-rl train parr:replay_on_the_gpu` runs the experiment. CartPole replaces the paper's environment, the
game Super Smash Bros. Melee. `python -m benchmarks.gpu --part parr` measures Table 1 of Parr 2017.
"""

from dataclasses import replace
from typing import Any

from accel_rl.replays.config import ReplayConfig
from accel_rl.settings.train import TrainConfig, default_config

BATCH_SIZES = (16, 32, 64, 128, 256)  # Table 1
WORKERS, UPDATE_SIZE = 50, 2_000  # Sections 3 and 4: experiences are copied to the replay in blocks of 2,000.


def replay_on_the_gpu(batch_size: int = 128, device: str = "auto", seed: int = 0) -> TrainConfig:
    """The settings of Parr 2017: one million experiences, a shared layer of 128 units, dueling streams of 512 units,
    and a target network that is copied every 10,000 train steps (section 4.2). `device` is the device of the replay.
    With the device cpu, the run corresponds to the paper's in-RAM replay.

    The experiment uses DQN's values for the number of random steps before training, the exploration and the learning
    rate, because the paper does not report these values.
    """
    if batch_size not in BATCH_SIZES:
        raise ValueError(f"batch_size={batch_size} is not in Table 1: {', '.join(map(str, BATCH_SIZES))}")
    base = default_config("dqn")
    algo: Any = base.algo
    return replace(
        base,
        env=replace(base.env, id="CartPole-v1"),
        algo=replace(
            algo,
            replay=ReplayConfig(size=1_000_000, start=10 * UPDATE_SIZE, device=device),
            batch_size=batch_size,
            dueling=True,
            hidden=(512,),
            target_interval=10_000,
            target_unit="updates",
        ),
        sampler=replace(base.sampler, envs=WORKERS, horizon=UPDATE_SIZE // WORKERS),
        seed=seed,
    )


def replay_in_ram() -> TrainConfig:
    """`replay_on_the_gpu` with the replay in host memory."""
    return replay_on_the_gpu(device="cpu")
