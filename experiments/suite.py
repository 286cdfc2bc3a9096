"""The suite shows that the algorithms learn, in comparison with published scores at equal frames.

The command `accel-rl sweep experiments.suite:cpu --idle --resume` starts or continues the suite in
runs/suite-cpu, and `experiments.suite:missing` has only the runs without a recorded result. The runs are ordered by
what they tell in an hour, so that the results are useful even if only the first runs are done.
"""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from accel_rl.settings.presets import with_preset
from accel_rl.settings.train import TrainConfig, default_config
from accel_rl.sweeps.grid import Grid, GridMember

GAMES = ("pong", "breakout", "space_invaders", "beam_rider", "ms_pacman", "seaquest", "qbert", "freeway")
POLICY_GRADIENTS = ("a2c", "pqn", "ppo")
"""They act in many environments at a time, and have 10 M env steps (PQN, too, learns from rollouts)."""
FROM_REPLAY = ("dqn", "c51", "rainbow")
"""They have Dopamine's settings and rules, and 1 M env steps, at which Dopamine's curves can be read."""
EARLY = 250_000
"""The number of env steps of the first score of Dopamine's curves."""
TEN_MILLION = 10_000_000
ONE_MILLION = 1_000_000
EPISODES = 30
"""Number of episodes of each evaluation."""
RECORDED = Path(__file__).parent / "results/suite"
UNPUBLISHED = {"pqn": ("seaquest", "qbert", "freeway")}
"""Cells for which no source has a score at 10 M env steps."""
CONTROL = ("space_invaders", "beam_rider")
"""Games in which PPO's default settings failed: its source's settings show whether PPO is at fault."""


def run(algorithm: str, game: str, seed: int, preset: str = "") -> TrainConfig:
    """Policy gradients have this project's default settings and the protocol `cleanrl2022`, so that the suite tests the
    defaults, or those of a preset."""
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
    """Six algorithms on eight games, each with one seed at the number of env steps at which its source has scores, and
    then two more seeds."""
    members = []
    for config in _cpu():
        labels = {"algorithm": config.algorithm, "game": config.env.game, "seed": str(config.seed)}
        if config.preset and config.algorithm not in FROM_REPLAY:
            labels["preset"] = config.preset
        members.append(GridMember(config, labels))
    return Grid(tuple(members))


def early() -> Grid:
    """The first 250,000 env steps of Q-learning on eight games, each run half an hour to an hour of one core. A score
    of this length also tells whether the settings, the network and its initial weights are Dopamine's."""
    members = []
    for game in GAMES:
        for algorithm in (*FROM_REPLAY, "qrdqn"):
            config = with_preset(default_config(algorithm), "dopamine")
            evaluation = replace(config.evaluation, interval=0)
            config = replace(config, env=replace(config.env, game=game), env_steps=EARLY, seed=1, evaluation=evaluation)
            members.append(GridMember(config, {"algorithm": algorithm, "game": game, "seed": "1"}))
    return Grid(tuple(members))


def missing() -> Grid:
    """The runs of `cpu` that are not among the recorded runs, experiments/results/suite."""
    recorded = {path.name for path in RECORDED.iterdir()}
    return Grid(tuple(m for m in cpu().members if recorded_name(m) not in recorded))


def recorded_name(member: GridMember) -> str:
    """The folder of a finished run in RECORDED, such as ppo_beam_rider_seed1, or dqn_dopamine_pong_seed1."""
    config = member.config
    return "_".join([config.algorithm, *filter(None, [config.preset]), config.env.game, f"seed{config.seed}"])
