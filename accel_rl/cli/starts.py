"""accel-rl starts GAME or RUN [options]"""

import dataclasses
from dataclasses import dataclass
from pathlib import Path

from accel_rl.agents.base import Agent
from accel_rl.agents.random import StickyRandomAgent
from accel_rl.api.trained_agent import trained_agent
from accel_rl.config.arguments import parse, positionals, stdout
from accel_rl.config.train import TrainConfig, default_config
from accel_rl.envs.make import make_spec
from accel_rl.envs.start_points import NOTE
from accel_rl.runners.record_starts import KEEP, STICKY_RANDOM, record, recorded_env
from accel_rl.runners.run_folder import RunFolder
from accel_rl.system.counts import Count
from accel_rl.system.errors import ConfigError


@dataclass(frozen=True)
class StartsOptions:
    out: str = ""
    """File to write. Default: GAME.starts.json in the current folder."""
    points: Count = 100
    """Number of start points (Nair et al. 2015, section 5.2: 100)."""
    games: Count = 10
    """Number of games to play; the points are drawn uniformly from all their steps."""
    steps: Count = 4_500
    """Longest game in agent steps (4,500: 5 minutes)."""
    seed: Count = 0
    """Seed of the play and of the draw."""
    greedy: bool = False
    """Of a run's agent: act greedily instead of sampling from the policy."""
    best: bool = False
    """Of a run: use the network with the best evaluation instead of the newest checkpoint."""
    checkpoint: str = ""
    """Of a run: use this checkpoint folder instead of the newest."""


def main(argv: list[str]) -> int:
    """accel-rl starts GAME or RUN [options]"""
    words, options = positionals(argv, ["the game, or a run folder"], "accel-rl starts")
    chosen = parse(
        StartsOptions,
        options,
        "accel-rl starts GAME",
        f"Record start points for evaluations ({NOTE}). With a game, sticky random play is recorded; with a run's "
        "folder, its agent plays. The same arguments give the same points.",
    )
    is_run = Path(words[0]).expanduser().is_dir()
    config, agent, policy = _agent_of_run(Path(words[0]), chosen) if is_run else _random_play(words[0], chosen)
    out = Path(chosen.out).expanduser() if chosen.out else Path(f"{config.env.game}.starts.json")
    if not out.parent.is_dir():
        raise ConfigError(f"--out {out}: there is no folder {out.parent}")
    points = record(
        config, agent, policy, points=chosen.points, games=chosen.games, steps=chosen.steps, seed=chosen.seed
    )
    points.save(out)
    frames = [points.frames(i) for i in range(len(points))]
    stdout(f"{out}: {len(points)} start points of {points.game}, at frames {min(frames):,} to {max(frames):,}")
    stdout(f"played by {policy}; {NOTE}")
    return 0


def _random_play(game: str, chosen: StartsOptions) -> tuple[TrainConfig, Agent, str]:
    for name in ("greedy", "best", "checkpoint"):
        if getattr(chosen, name):
            raise ConfigError(f"--{name} is for the folder of a run: {game!r} is none")
    config = default_config("dqn")
    config = dataclasses.replace(config, env=recorded_env(dataclasses.replace(config.env, game=game)))
    config.env.check()
    spec = make_spec(config.env, training=False)
    return config, StickyRandomAgent(spec.n_actions, KEEP), STICKY_RANDOM


def _agent_of_run(path: Path, chosen: StartsOptions) -> tuple[TrainConfig, Agent, str]:
    run, config = RunFolder.open(path.expanduser())
    if not config.env.game:
        raise ConfigError(f"{run.path} plays {config.env.id}: start points are of Atari games")
    config, state, agent, _ = trained_agent(run, config, chosen.checkpoint, chosen.greedy, chosen.best)
    return config, agent, f"{config.algorithm} after {state['env_steps']:,} env steps of training, seed {config.seed}"
