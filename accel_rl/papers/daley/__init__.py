"""Daley & Amato 2021 (arXiv:2111.01264) present concurrent training and synchronized execution of DQN.

| in the paper | here |
|---|---|
| Tables 1 to 3: hours of 14 variants, on Pong | `table_1`, `table_2`, `table_3`: the same runs, `speed_test` |
| Table 4: the 49 games | `table_4`: `suite` (report it with --score best) |
| Table 5: hyperparameters | `dqn` |

The command `accel-rl sweep daley:table_4 --gpus 0-3 --scale 0.02` runs Table 4 at a reduced scale. `python -m
benchmarks.gpu --part daley` measures the env steps/s of the 14 variants on a GPU, one after another.
"""

from dataclasses import replace
from typing import Any

from accel_rl.envs.atari_games import ATARI_49
from accel_rl.settings.train import TrainConfig, default_config
from accel_rl.sweeps.grid import Level, levels

REPORT = "accel_rl.papers.daley.daley_tables"
THREADS = (1, 2, 4, 8)
VARIANTS = ("standard", "concurrent", "synchronized", "both")
FILL = 50_000
"""`FILL` is the number of env steps with random actions that fill the replay before training (Table 5: N)."""
FOURTEEN = [(n, v) for n in THREADS for v in VARIANTS if n > 1 or v in ("standard", "concurrent")]
"""`FOURTEEN` lists the 14 variants of Daley & Amato 2021. There are no synchronized variants with a single thread
(Table 1)."""


def dqn(game: str = "pong", threads: int = 8, variant: str = "both", seed: int = 0) -> TrainConfig:
    """DQN of Daley & Amato 2021 (Table 5, section 5.2): 50 M env steps after the replay is filled with random actions,
    and 30 evaluation episodes every 250,000 env steps. The network, the frames and epsilon are those of Mnih et al.
    2015. Unlike in Stooke & Abbeel 2018, episodes do not start with random actions."""
    if threads < 1 or variant not in VARIANTS:
        raise ValueError(f"threads={threads}, variant={variant!r}: at least 1, and one of {', '.join(VARIANTS)}")
    base = default_config("dqn")
    default: Any = base.algo
    algo: Any = replace(
        default,
        replay=replace(default.replay, size=1_000_000, start=FILL),  # Table 5
        batch_size=32,  # Table 5
        intensity=32 / 4,  # Table 5: one update every F = 4 steps
        gamma=0.99,  # Table 5
        target_interval=10_000,  # Table 5: the target network is updated every C = 10,000 steps
        learning_rate=2.5e-4,  # appendix B
        optimizer="rmsprop-centered",  # appendix B
        rmsprop_alpha=0.95,  # Appendix B uses the decay factor 0.95 for both moments.
        optimizer_eps=0.01,  # appendix B
        network="nature",
        epsilon=1.0,  # Mnih et al. 2015: epsilon falls to 0.1 within a million steps.
        epsilon_final=0.1,
        epsilon_steps=1_000_000,
        epsilon_evaluation=0.05,  # section 5.2
    )
    return replace(
        base,
        env=replace(base.env, game=game, protocol="mnih2015"),
        algo=algo,
        sampler=replace(
            base.sampler,
            envs=threads,
            workers=threads,
            groups=1,
            decorrelation_steps=0,
            inference_per_worker=variant in ("standard", "concurrent"),
        ),
        evaluation=replace(base.evaluation, interval=250_000, episodes=30),  # section 5.2
        schedule="concurrent" if variant in ("concurrent", "both") else "lockstep",
        env_steps=FILL + 50_000_000,  # Section 5.2 of Daley & Amato 2021 trains for 200 M frames.
        seed=seed,
    )


@levels(
    Level({"threads": [n for n, _ in FOURTEEN], "variant": [v for _, v in FOURTEEN]}),
    seeds=(0, 1, 2, 3, 4),  # Section 5.1 reports five trials.
)
def speed_test(threads: int = 8, variant: str = "both", seed: int = 0) -> TrainConfig:
    """A speed test of Tables 1 to 3 (section 5.1): Pong for a million env steps after the replay is filled with random
    actions, with a constant epsilon of 0.1. The paper's hours for 50 M env steps are 50 times those of a speed test."""
    config = dqn("pong", threads, variant, seed)
    algo: Any = config.algo
    return replace(
        config,
        algo=replace(algo, epsilon=0.1, epsilon_final=0.1),
        evaluation=replace(config.evaluation, interval=0),
        checkpoint=replace(config.checkpoint, interval=0),
        env_steps=FILL + 1_000_000,
    )


@levels({"game": ATARI_49}, seeds=(0,))  # Section 5.2 reports one trial.
def suite(game: str = "pong", seed: int = 0) -> TrainConfig:
    """Table 4: the fastest variant in one of the 49 games. The score of a game is the score of the run's best
    evaluation."""
    return dqn(game, 8, "both", seed)


table_1 = table_2 = table_3 = speed_test
table_4 = suite
