"""Scores on separate environments, without favouring short episodes."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from accel_rl.agents.base import Agent
from accel_rl.config.train import TrainConfig
from accel_rl.envs.make import EnvConfig, make_spec
from accel_rl.runners.build import build_sampler
from accel_rl.runners.plan import RankPlan
from accel_rl.samplers.episodes import Episode

CHUNK = 16  # steps between looks at who is done
STEPS_EACH = 500  # a small budget is not spread over more environments than this gives


@dataclass(frozen=True, slots=True)
class Evaluation:
    """Raw scores of whole episodes, and the rules they were played by."""

    scores: tuple[float, ...]
    lengths: tuple[int, ...]
    protocol: dict[str, Any]

    @property
    def mean(self) -> float:
        return float(np.mean(self.scores)) if self.scores else float("nan")

    @property
    def std(self) -> float:
        return float(np.std(self.scores)) if self.scores else float("nan")

    def to_dict(self) -> dict[str, Any]:
        return {
            "score_mean": self.mean,
            "score_std": self.std,
            "episodes": len(self.scores),
            "steps": sum(self.lengths),
            "scores": list(self.scores),
            "lengths": list(self.lengths),
            "protocol": self.protocol,
        }


class Quota:
    """Which environments go on playing.

    By steps: each begins episodes until its share is used and finishes the last one, so that no episode is left out for
    being long. The sums over many evaluations have no bias (Wald); the mean of a single one leans to long episodes by
    about 1 / (number of episodes), where leaving out the unfinished ones would lean far to short ones.
    By episodes: each plays a number set in advance; no bias at all.
    """

    def __init__(self, B: int, steps: int, episodes: int):
        self._used = np.zeros(B, np.int64)
        self._played = np.zeros(B, np.int64)
        share, rest = divmod(episodes, B)
        self._episodes = np.array([share + (b < rest) for b in range(B)]) if episodes else None
        self._steps = max(1, -(-steps // B))
        self.idle = np.zeros(B, bool) if self._episodes is None else self._episodes == 0

    def count(self, finished: list[Episode]) -> list[Episode]:
        """Take in finished episodes; returns those that count."""
        counted = []
        for e in finished:
            if self.idle[e.b]:
                continue
            counted.append(e)
            self._used[e.b] += e.length
            self._played[e.b] += 1
            if self._episodes is None:
                self.idle[e.b] = self._used[e.b] >= self._steps
            else:
                self.idle[e.b] = self._played[e.b] >= self._episodes[e.b]
        return counted


def evaluation_env(config: TrainConfig) -> EnvConfig:
    """The environment as it is evaluated; --evaluation.max-episode-steps caps the protocol's own limit."""
    if not config.env.game:
        return config.env
    limit = min(config.env.rules().for_evaluation().max_episode_steps, config.evaluation.max_episode_steps)
    return replace(config.env, max_evaluation_steps=limit)


def evaluate(
    agent: Agent,
    config: TrainConfig,
    plan: RankPlan,
    *,
    steps: int,
    seed: int,
    stop: Callable[[], bool] = lambda: False,
    progress: Callable[[int], None] = lambda n: None,
) -> Evaluation | None:
    """Play evaluation episodes with an agent on environments of their own. None if `stop()` came true on the way.

    A pure function of parameters, settings and seed.
    """
    e = config.evaluation
    env = evaluation_env(config)
    spec = make_spec(env, training=False)
    B = min(e.parallel, e.episodes or max(1, steps // STEPS_EACH))
    sampler = build_sampler(plan.evaluation(B, CHUNK), env, spec, config, seed=seed, training=False)
    quota = Quota(B, steps, e.episodes)
    counted: list[Episode] = []
    try:
        while not quota.idle.all():
            if stop():
                return None
            sampler.idle = quota.idle
            sampler.collect(agent)
            counted += quota.count(sampler.finished)
            progress(sum(x.length for x in counted))
    finally:
        sampler.close()
    return Evaluation(tuple(x.score for x in counted), tuple(x.length for x in counted), spec.protocol)
