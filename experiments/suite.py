"""The suite tests whether the algorithms learn, by comparison with published scores at equal numbers of frames.

The command `accel-rl sweep experiments.suite:cpu --idle --resume` starts or continues the suite in runs/suite-cpu, and
`experiments.suite:missing` has only the runs without a recorded result. Runs that give the most information per hour
come first, so that an unfinished suite is useful, too.
"""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from accel_rl.settings.presets import with_preset
from accel_rl.settings.train import TrainConfig, default_config
from accel_rl.sweeps.grid import Grid, GridMember

GAMES = ("pong", "breakout", "space_invaders", "beam_rider", "ms_pacman", "seaquest", "qbert", "freeway")
POLICY_GRADIENTS = ("a2c", "pqn", "ppo")
"""Algorithms that learn from rollouts (PQN is no policy gradient, but does so, too): 10 M env steps."""
FROM_REPLAY = ("dqn", "c51", "rainbow")
"""Algorithms with Dopamine's settings and rules: 1 M env steps, at which Dopamine's curves are compared."""
EARLY = 250_000
"""Number of env steps of the first point of Dopamine's curves."""
TEN_MILLION = 10_000_000
ONE_MILLION = 1_000_000
EPISODES = 30
"""Number of episodes of each evaluation."""
RECORDED = Path(__file__).parent / "results/suite"
UNPUBLISHED = {"pqn": ("seaquest", "qbert", "freeway")}
"""For each algorithm, the games for which no source has published a score at 10 M env steps."""
CONTROL = ("space_invaders", "beam_rider")
"""Games in which PPO's default settings failed. Runs with CleanRL's settings show whether the settings or the code of
PPO are the cause."""


def run(algorithm: str, game: str, seed: int, preset: str = "") -> TrainConfig:
    """Return the settings of one run: those of `preset`, or without a preset Dopamine's for algorithms with a replay,
    and this project's defaults for other algorithms. Algorithms without a replay have the protocol `cleanrl2022`."""
    replays = algorithm in FROM_REPLAY
    config = default_config(algorithm)
    if preset := preset or ("dopamine" if replays else ""):
        config = with_preset(config, preset)
    env_steps, evaluations = (ONE_MILLION, 2) if replays else (TEN_MILLION, 10)
    evaluation = replace(config.evaluation, interval=env_steps // evaluations, episodes=EPISODES)
    env = replace(config.env, game=game, protocol=config.env.protocol if replays else "cleanrl2022")
    return replace(config, env=env, env_steps=env_steps, seed=seed, evaluation=evaluation)


def _published(algorithm: str) -> tuple[str, ...]:
    return tuple(game for game in GAMES if game not in UNPUBLISHED.get(algorithm, ()))


def _cpu() -> Iterator[TrainConfig]:
    for algorithm in ("a2c", "pqn"):
        yield from (run(algorithm, game, 1) for game in _published(algorithm))
    yield from (run("ppo", game, 1, "cleanrl") for game in CONTROL)
    yield from (run("ppo", game, 1) for game in GAMES)
    for game in GAMES:
        yield from (run(algorithm, game, 1) for algorithm in FROM_REPLAY)
    for algorithm, games in UNPUBLISHED.items():
        yield from (run(algorithm, game, 1) for game in games)
    for seed in (2, 3):
        for algorithm in (*POLICY_GRADIENTS, *FROM_REPLAY):
            yield from (run(algorithm, game, seed) for game in _published(algorithm))


def cpu() -> Grid:
    """Six algorithms on eight games, for as many env steps as the published runs: first one seed of each, then two
    more."""
    members = []
    for config in _cpu():
        labels = {"algorithm": config.algorithm, "game": config.env.game, "seed": str(config.seed)}
        if config.preset and config.algorithm not in FROM_REPLAY:
            labels["preset"] = config.preset
        members.append(GridMember(config, labels))
    return Grid(tuple(members))


def early() -> Grid:
    """The first 250,000 env steps of Q-learning on eight games, half an hour to an hour per run on one core. Scores at
    250,000 env steps also show whether the settings, the network and its initial weights equal Dopamine's."""
    members = []
    for game in GAMES:
        for algorithm in (*FROM_REPLAY, "qrdqn"):
            config = with_preset(default_config(algorithm), "dopamine")
            evaluation = replace(config.evaluation, interval=0)
            config = replace(config, env=replace(config.env, game=game), env_steps=EARLY, seed=1, evaluation=evaluation)
            members.append(GridMember(config, {"algorithm": algorithm, "game": game, "seed": "1"}))
    return Grid(tuple(members))


def missing() -> Grid:
    """The runs of `cpu` without a recorded run in experiments/results/suite."""
    recorded = {path.name for path in RECORDED.iterdir()}
    return Grid(tuple(m for m in cpu().members if recorded_name(m) not in recorded))


def recorded_name(member: GridMember) -> str:
    """The name of a finished run's folder in RECORDED, such as ppo_beam_rider_seed1 or dqn_dopamine_pong_seed1."""
    config = member.config
    return "_".join([config.algorithm, *filter(None, [config.preset]), config.env.game, f"seed{config.seed}"])
