"""Evaluation episodes of an agent, in environments that are not used for training."""

from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path

from accel_rl.agents.agent import Agent, RandomAgent
from accel_rl.data.spec import EnvSpec
from accel_rl.envs.make import ResolvedEnv, make_spec
from accel_rl.envs.start_points import load_starts
from accel_rl.models.actor_critic import policy_of
from accel_rl.models.network_state import buffers_kept
from accel_rl.planning.plan import RankPlan
from accel_rl.samplers.episodes import Episode
from accel_rl.samplers.rollout_sampler import RolloutSampler
from accel_rl.settings.resolved import Resolved
from accel_rl.text.errors import ConfigError
from accel_rl.text.notes import say_once
from accel_rl.training.build import build_sampler
from accel_rl.training.evaluation import Evaluation, Quota
from accel_rl.training.seeds import own_generator

CHUNK = 16  # The evaluator plays 16 steps between two checks for finished episodes.
# A short evaluation uses fewer environments, so that each environment makes at least 500 steps.
MIN_STEPS_PER_ENV = 500
RANDOM_AGENT_FRAMES = 6
"""The random agent repeats each action for 6 frames (60 frames a second / 10 Hz; Nair et al. 2015, section 5.2)."""


def evaluation_env(config: Resolved) -> ResolvedEnv:
    """The settings of the environment, with the time limit of an evaluation episode."""
    return replace(config.env, max_evaluation_steps=config.evaluation_limit)


class Evaluator:
    """Evaluates agents in worker processes that run from the first evaluation until `close` is called."""

    def __init__(self, config: Resolved, plan: RankPlan):
        self.config = config
        self.plan = plan
        self.env = evaluation_env(config)
        file = config.evaluation.starts_file
        self._starts = load_starts(Path(file)) if file else None
        self._sampler: RolloutSampler | None = None

    def evaluate(
        self, agent: Agent, *, steps: int, seed: int, stop: Callable[[], bool] = lambda: False
    ) -> Evaluation | None:
        """Play evaluation episodes. The result depends only on parameters, settings and seed. Returns None if `stop()`
        returned True.

        An evaluation changes neither the network's buffers nor the state of torch's random generators.

        No episode begins after `steps` env steps, unless the settings specify a number of episodes or saved starts.
        Each saved start point is played once. If the agent plays several games, each game has the same number of
        environments.
        """
        parallel = self.config.evaluation.parallel
        games = len(self.config.env.games) or 1
        episodes = len(self._starts) if self._starts else self.config.evaluation.episodes * games
        B = min(parallel, episodes or max(1, steps // MIN_STEPS_PER_ENV))
        B = max(1, B // games) * games
        try:
            while True:
                with own_generator(self.plan.device, seed), buffers_kept(agent.model):
                    sampler = self._fresh_sampler(B, seed)
                    result = self._play(agent, sampler, Quota(B, steps, episodes), stop)
                # The environments of a replaced worker process restart at their first saved starts, so the evaluation
                # is repeated.
                if result is None or self._starts is None or not sampler.dropped:
                    return result
        except BaseException:
            self.close()  # The sampler is closed after an error, because its current rollout may be incomplete.
            raise

    def _fresh_sampler(self, B: int, seed: int) -> RolloutSampler:
        """A sampler for B environments. If the previous evaluation's sampler has B environments, this sampler is
        restarted instead of building a new one."""
        if self._sampler is not None and self._sampler.B == B:
            self._sampler.reseed(seed)
            return self._sampler
        self.close()
        spec = make_spec(self.env, training=False, start_timeout_s=self.config.sampler.spec_timeout_s)
        self._say_limit(spec)
        plan = self.plan.evaluation(B, CHUNK)
        self._sampler = build_sampler(plan, self.env, spec, self.config, seed=seed, training=False)
        return self._sampler

    def _say_limit(self, spec: EnvSpec) -> None:
        """Log once if evaluation episodes of a Gymnasium environment are shorter than the environment's own time
        limit."""
        limit = self.config.evaluation_limit
        of_env = self.config.spec.protocol["max_episode_steps"] if not spec.is_atari else 0
        if "autoreset" not in spec.protocol and (of_env is None or of_env > limit):
            has = "no time limit" if of_env is None else f"a time limit of {of_env:,} steps"
            say_once(f"{spec.name} has {has}: evaluation episodes end after {limit:,} (--evaluation.max-episode-steps)")

    def _play(self, agent: Agent, sampler: RolloutSampler, quota: Quota, stop: Callable[[], bool]) -> Evaluation | None:
        counted: list[Episode] = []
        while not quota.idle.all():
            if stop():
                return None
            sampler.idle = quota.idle
            sampler.collect(agent)
            counted += quota.count(sampler.finished)
        protocol = {**sampler.spec.protocol, **(self._starts.label() if self._starts else {})}
        scores, lengths, played = (tuple(getattr(x, name) for x in counted) for name in ("score", "length", "game"))
        return Evaluation(scores, lengths, protocol, self.config.env.games, played)

    def close(self) -> None:
        if self._sampler is not None:
            self._sampler.close()
            self._sampler = None


def at_10_hz(config: Resolved) -> Resolved:
    """The settings of the random agent, whose agent steps have RANDOM_AGENT_FRAMES frames. The time limit of an
    episode, in frames, is unchanged. Raises ConfigError."""
    if not config.env.game:
        raise ConfigError(f"random play at 10 Hz is of Atari games: {config.env.id} is none")
    limit = max(1, config.evaluation_limit * config.env.rules().frame_skip // RANDOM_AGENT_FRAMES)
    env = replace(config.env, frame_skip=RANDOM_AGENT_FRAMES, max_evaluation_steps=limit)
    return replace(config, env=env, evaluation=replace(config.evaluation, max_episode_steps=limit))


def evaluate_random(config: Resolved, plan: RankPlan, *, steps: int, seed: int) -> Evaluation:
    """Evaluate the random agent of human-normalized scores, which plays uniformly random actions at 10 Hz, with a run's
    evaluation settings. No episode begins after `steps` env steps, unless the settings specify a number of episodes or
    saved starts."""
    config = at_10_hz(config)
    agent = RandomAgent(config.spec.n_actions, policy_of(config.spec))
    with closing(Evaluator(config, plan)) as evaluator:
        result = evaluator.evaluate(agent, steps=steps, seed=seed)
    assert result is not None
    return result
