"""Wall clock until PPO plays Pong, with the curve."""

import contextlib
import time
from dataclasses import replace

from accel_rl.metrics.recorder import episode_metrics
from benchmarks.gpu.bench import Bench, Goal, Result
from benchmarks.gpu.training import Training, envs_near, settings

COLUMNS = ("seconds", "env steps", "score of the last 100 episodes", "env steps/s since the last row")
ENV_STEPS = 10_000_000
"""Length of the schedules of the learning rate and the clip range."""
EPISODES = 20
"""Fewest episodes of a score that counts."""


def measure(bench: Bench) -> Result:
    result, wanted = Result(COLUMNS), bench.sizes.pong_score
    bench = replace(bench, game="pong", sizes=replace(bench.sizes, warm_cycles=0))
    config = settings(bench, "ppo", envs_near(bench.sizes.pong_envs, bench), bench.sizes.pong_horizon)
    begin, score, every = time.monotonic(), float("nan"), bench.left / 60
    training = Training(bench, "pong", replace(config, env_steps=ENV_STEPS))
    steps = config.T * config.sampler.envs  # the first cycle
    shown, shown_steps = begin, 0
    with contextlib.closing(training):
        while bench.left and steps < ENV_STEPS:
            training.learner.algo.now.progress = steps / ENV_STEPS
            steps += training.schedule.cycle(ENV_STEPS - steps)[0]
            recent = list(training.sampler.episodes.recent)
            score, now = episode_metrics(recent)["score"], time.monotonic()
            reached = len(recent) >= EPISODES and score >= wanted
            if reached or now - shown >= every:
                row = [now - begin, steps, None if score != score else score, (steps - shown_steps) / (now - shown)]
                result.rows.append(row)
                shown, shown_steps = now, steps
            if reached:
                break
        result.notes = training.notes()
    result.goals.append(Goal("Pong: score", -21.0 if score != score else score, wanted))
    result.notes.insert(0, f"PPO with its default settings, {config.sampler.envs} environments x {config.T} steps")
    return result
