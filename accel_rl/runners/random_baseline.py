"""Normalized scores compare with a random agent, which takes uniform actions at 10 Hz from the same starts as trained
agents."""

from contextlib import closing
from dataclasses import replace

from accel_rl.agents.random import RandomAgent
from accel_rl.config.resolved import Resolved
from accel_rl.runners.evaluation import Evaluation
from accel_rl.runners.evaluator import Evaluator
from accel_rl.runners.plan import RankPlan
from accel_rl.system.errors import ConfigError

FRAMES = 6
"""The random agent repeats each action for 6 frames (60 frames a second / 10 Hz; Nair et al. 2015, section 5.2)."""


def at_10_hz(config: Resolved) -> Resolved:
    """Return the settings of the random agent: agent steps have FRAMES frames, and the time limit in frames is
    unchanged. Raises ConfigError."""
    if not config.env.game:
        raise ConfigError(f"random play at 10 Hz is of Atari games: {config.env.id} is none")
    limit = max(1, config.evaluation_limit * config.env.rules().frame_skip // FRAMES)
    env = replace(config.env, frame_skip=FRAMES, max_evaluation_steps=limit)
    return replace(config, env=env, evaluation=replace(config.evaluation, max_episode_steps=limit))


def evaluate_random(config: Resolved, plan: RankPlan, *, steps: int, seed: int) -> Evaluation:
    """Evaluate uniformly random actions at 10 Hz with a run's evaluation settings. After `steps` env steps no episode
    begins, unless the settings specify a number of episodes or saved starts."""
    config = at_10_hz(config)
    agent = RandomAgent(config.spec.n_actions)
    with closing(Evaluator(config, plan)) as evaluator:
        result = evaluator.evaluate(agent, steps=steps, seed=seed)
    assert result is not None
    return result
