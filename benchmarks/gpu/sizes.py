"""The sizes of the GPU benchmark's measurements, and tiny sizes for the simulated GPU."""

from dataclasses import dataclass

from accel_rl.models.precision import Precision


@dataclass(frozen=True)
class Sizes:
    """Sizes of measurements. Numbers of environments are rounded, so that every core steps equally many."""

    acting_envs: tuple[int, ...] = (256, 1_024)
    acting_horizon: int = 20
    emulated_envs: tuple[int, ...] = (512, 8_192, 65_536)  # Numbers of environments that a GPU emulates.
    trained_envs: int = 8_192  # Maximum number of emulated environments on which A2C trains.
    emulated_steps: int = 400  # Number of agent steps after a start state that all environments share.
    step_envs: tuple[int, ...] = (32, 128, 512, 1_024, 8_192, 65_536)
    step_games: tuple[str, ...] = (
        *("pong", "breakout", "seaquest", "qbert", "ms_pacman"),
        *("montezuma_revenge", "asteroids", "beam_rider", "space_invaders"),
    )
    policy_envs: int = 1_024  # Number of environments for A2C and PPO.
    q_envs: int = 256  # Number of environments for DQN, C51 and Rainbow.
    ppo_horizon: int = 16
    ppo_minibatch: int = 512  # The code of Stooke & Abbeel 2018 has minibatches of 512.
    impala_network: str = "impala"  # The residual network of Espeholt et al. 2018
    batches: tuple[tuple[str, int], ...] = (("dqn", 512), ("c51", 2_048), ("rainbow", 512))
    q_network: str = "dqn"  # DQN-Net of Stooke & Abbeel 2018
    at_once: int = 8
    intensity: float = 8.0  # As in Stooke & Abbeel 2018, each transition is used 8 times.
    replay_size: int = 250_000
    replay_start: int = 50_000
    target_interval: int = 10_000
    samplers: tuple[int, ...] = (1, 2, 4, 8)
    daley_network: str = "nature"  # The network of Mnih et al. 2015
    period: int = 10_000  # Env steps of a period of --schedule concurrent: C in table 5 of Daley & Amato 2021.
    daley_start: int = 5_000
    draws: tuple[int, ...] = (32, 512, 2_048)
    capacity: int = 100_000  # Transitions in a replay that is measured without training.
    parr_batches: tuple[int, ...] = (16, 32, 64, 128, 256)
    copied_bytes: int = 2**30
    profiled: int = 50  # Number of updates that the profiler records.
    # Precisions to measure in addition to float32.
    precisions: tuple[Precision, ...] = ("tfloat32", "bfloat16")
    rounds: int = 3  # Number of measurements of each variant
    shortest: float = 0.5  # Minimum seconds of a measurement
    warm_cycles: int = 12
    decorrelation_steps: int = 300
    in_process: bool = False  # Whether environments are stepped without worker processes


FULL = Sizes()
TINY = Sizes(
    acting_envs=(4,), acting_horizon=2, emulated_envs=(4,), trained_envs=4, emulated_steps=8, policy_envs=4, q_envs=4,
    step_envs=(4, 8), step_games=("pong",),
    ppo_horizon=4, ppo_minibatch=16, impala_network="a3c", batches=(("dqn", 8), ("c51", 8), ("rainbow", 8)),
    q_network="a3c", at_once=1, intensity=1.0, replay_size=400, replay_start=40, target_interval=16, samplers=(2,),
    daley_network="a3c", period=16, daley_start=40, draws=(4,), capacity=512, parr_batches=(4,), copied_bytes=2**16,
    profiled=2, precisions=("bfloat16",), rounds=1, shortest=0.01, warm_cycles=2, decorrelation_steps=0,
    in_process=True,
)  # fmt: skip
