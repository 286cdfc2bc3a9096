"""Records games, and draws from them the start points of evaluation episodes."""

import zlib
from dataclasses import replace

from accel_rl.agents.agent import Agent
from accel_rl.envs.ale import AtariEnv
from accel_rl.envs.make import ResolvedEnv
from accel_rl.envs.start_points import StartPoint, StartPoints, draw_moments
from accel_rl.run.video import FilmedEpisode
from accel_rl.settings.resolved import Resolved
from accel_rl.text.errors import ConfigError

KEEP = 0.75
"""Random play repeats the last action with probability `KEEP`, so that an action lasts 4 agent steps (a quarter of a
second) on average."""
STICKY_RANDOM = f"sticky random play: each action is kept for the next step with probability {KEEP}"


def recorded_env(env: ResolvedEnv) -> ResolvedEnv:
    """The settings of an environment without no-ops and sticky actions, so that a recorded game can be replayed from
    its actions."""
    return replace(env, noop_max=0, repeat_action_probability=0.0)


def record(
    config: Resolved, agent: Agent, policy: str, *, points: int, games: int, steps: int, seed: int
) -> StartPoints:
    """Play `games` games of at most `steps` agent steps each, and draw start points uniformly from all moments of the
    games. `policy` describes the player. Equal arguments give equal start points. Raises ConfigError."""
    for name, value in (("games", games), ("steps", steps)):
        if value < 1:
            raise ConfigError(f"--{name} {value}: must be at least 1")
    env = recorded_env(config.env)
    rules = env.rules()
    # The backend is ale, because only ale-py's environment records its actions.
    limited = replace(config, env=replace(env, backend="ale", max_evaluation_steps=steps))
    played, rams = [], []
    for game in range(games):
        episode = FilmedEpisode(limited, agent, seed + game, steps)
        assert isinstance(episode.env, AtariEnv)
        rams.append([zlib.crc32(episode.env.ram()) for _ in episode.pictures()])
        played.append(episode.env.actions)
    moments = draw_moments([len(codes) for codes in played], points, seed)
    return StartPoints(
        game=env.game,
        policy=policy,
        seed=seed,
        frame_skip=rules.frame_skip,
        mode=rules.mode,
        difficulty=rules.difficulty,
        games=tuple(played),
        points=tuple(StartPoint(game, n, rams[game][n]) for game, n in moments),
    )
