"""Plays evaluation episodes with an agent on environments of their own."""

from collections.abc import Callable
from dataclasses import replace

from accel_rl.agents.base import Agent
from accel_rl.config.train import TrainConfig
from accel_rl.envs.make import EnvConfig, make_spec
from accel_rl.runners.build import build_sampler
from accel_rl.runners.evaluation import Evaluation, Quota
from accel_rl.runners.plan import RankPlan
from accel_rl.samplers.episodes import Episode

CHUNK = 16  # steps between two checks of which environments are done
MIN_STEPS_PER_ENV = 500  # a small budget is not spread over more environments than this gives


def evaluation_env(config: TrainConfig) -> EnvConfig:
    """Return the environment as it is evaluated: --evaluation.max-episode-steps caps the protocol's own limit."""
    if not config.env.game:
        return config.env
    limit = min(config.env.rules().for_evaluation().max_episode_steps, config.evaluation.max_episode_steps)
    return replace(config.env, max_evaluation_steps=limit)


class Evaluator:
    """Evaluates agents of one run."""

    def __init__(self, config: TrainConfig, plan: RankPlan):
        self.config, self.plan = config, plan

    def evaluate(
        self,
        agent: Agent,
        *,
        steps: int,
        seed: int,
        stop: Callable[[], bool] = lambda: False,
        progress: Callable[[int], None] = lambda env_steps: None,
    ) -> Evaluation | None:
        """Play one evaluation, a pure function of parameters, settings and seed. None if `stop()` became true.

        steps: env steps after which no episode is begun, unless the settings name a number of episodes.
        """
        e, env = self.config.evaluation, evaluation_env(self.config)
        spec = make_spec(env, training=False)
        B = min(e.parallel, e.episodes or max(1, steps // MIN_STEPS_PER_ENV))
        sampler = build_sampler(self.plan.evaluation(B, CHUNK), env, spec, self.config, seed=seed, training=False)
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

    def close(self) -> None: ...
