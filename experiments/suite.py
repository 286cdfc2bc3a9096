"""The suite shows that the algorithms learn, in comparison with published scores at equal frames.

The command `accel-rl sweep experiments.suite:cpu --idle --resume` starts or continues the suite in
runs/suite-cpu. The order of the runs makes the results useful even if only the first runs are done.
"""

from collections.abc import Iterator
from dataclasses import replace

from accel_rl.config.train import TrainConfig, default_config
from accel_rl.sweeps.grid import Grid, Member

GAMES = ("pong", "breakout", "space_invaders", "beam_rider", "ms_pacman", "seaquest", "qbert", "freeway")
THREE = GAMES[:3]
TEN_MILLION = 10_000_000
EPISODES = 30
"""Number of episodes of each evaluation."""
EVALUATIONS = 10
"""Number of evaluations per run."""


def run(algorithm: str, game: str, seed: int, env_steps: int = TEN_MILLION) -> TrainConfig:
    """`run` trains one agent with the protocol `cleanrl2022`. All algorithms have this project's settings, so that the
    suite tests the defaults."""
    config = default_config(algorithm)
    evaluation = replace(config.evaluation, interval=env_steps // EVALUATIONS, episodes=EPISODES)
    env = replace(config.env, game=game, protocol="cleanrl2022")
    return replace(config, env=env, env_steps=env_steps, seed=seed, evaluation=evaluation)


def _cpu() -> Iterator[TrainConfig]:
    for game in ("breakout", "pong", *GAMES[2:]):
        for algorithm in ("pqn", "ppo"):
            yield run(algorithm, game, 1)
        if game == "pong":
            for algorithm in ("dqn", "c51", "rainbow"):
                yield run(algorithm, game, 1, 1_000_000)
    for seed in (2, 3):
        for game in THREE:
            for algorithm in ("pqn", "ppo"):
                yield run(algorithm, game, seed)
    for game in GAMES[:4]:
        yield run("a2c", game, 1)
    for algorithm in ("dqn", "c51", "rainbow"):
        yield run(algorithm, "freeway", 1, 2_000_000)


def cpu() -> Grid:
    """The suite has PPO and PQN on eight games at 10 M env steps with two more seeds on three games, and A2C on four
    games. Q-learning from a replay runs on Pong and Freeway at 1 M and 2 M env steps."""
    members = []
    for config in _cpu():
        labels = {"algorithm": config.algorithm, "game": config.env.game, "seed": str(config.seed)}
        members.append(Member(config, labels))
    return Grid(tuple(members))
