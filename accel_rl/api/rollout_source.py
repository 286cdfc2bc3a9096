"""Collects rollouts without training."""

import os
from collections.abc import Callable, Iterator
from types import TracebackType
from typing import TYPE_CHECKING, Any, Unpack

from accel_rl.agents.agent import Agent, FunctionAgent, RandomAgent
from accel_rl.api.keywords import What, settings
from accel_rl.api.preparation import checked
from accel_rl.api.run import Run
from accel_rl.data.rollout import Rollout
from accel_rl.data.spec import EnvSpec
from accel_rl.models.actor_critic import policy_of
from accel_rl.planning.plan import RankPlan
from accel_rl.planning.rank_config import rank_config
from accel_rl.samplers.episodes import Episode
from accel_rl.text.errors import ConfigError
from accel_rl.training.build import build_sampler
from accel_rl.training.learner import Learner
from accel_rl.training.seeds import Stream, derived_seed

if TYPE_CHECKING:
    from accel_rl.api.train_settings import TrainSettings


def make_sampler(
    what: What = "a2c",
    *,
    policy: "str | os.PathLike[str] | Run | Agent | Callable[[Any], Any] | None" = "random",
    env: str | Callable[..., Any] | None = None,
    **values: "Unpack[TrainSettings]",
) -> "RolloutSource":
    """Start worker processes that play, and return a `RolloutSource`. The caller must close the `RolloutSource`, or use
    it in a `with` statement.

        with accel_rl.make_sampler(game="pong", envs=32, horizon=20) as sampler:
            rollout = sampler.collect()          # rollout.action, .reward, .terminated ... are [20, 32]
            obs = rollout.observations(0)        # [32, 4, 104, 80] uint8

    `policy` selects the actions: "random", a function, an agent, a run or its folder (the run's newest agent), or None
    (the untrained network of `what`). A function gets observations [N, ...] of some environments, and returns actions
    [N], or (actions, {name: values [N]}), which `rollout.recorded` then has as [T, B]. The arguments `what`, `env` and
    `values` are those of `train`. Raises ConfigError.
    """
    config = checked(settings(what, env, dict(values)))
    if not config.mode.is_alone:
        raise ConfigError("make_sampler: a sampler has one rank; leave out ranks, update and cluster")
    return RolloutSource(rank_config(config, 0), policy)


class RolloutSource:
    """Collects rollouts of T steps of B environments."""

    def __init__(self, config: Any, policy: Any):
        self.config, plan = config, RankPlan.resolve(config)
        self.spec: EnvSpec = config.spec
        self.agent = _agent(config, policy, plan.device)
        self.sampler = build_sampler(
            plan.sampler, config.env, self.spec, config, seed=derived_seed(config.seed, Stream.SAMPLER), training=True,
        )  # fmt: skip
        self.T, self.B = self.sampler.T, self.sampler.B

    def collect(self) -> Rollout:
        """Play T steps in each environment. A rollout is valid until `sampler.buffers` - 1 more rollouts have been
        collected; then its memory is reused."""
        return self.sampler.collect(self.agent)

    def __iter__(self) -> Iterator[Rollout]:
        """Yield rollouts endlessly. The environments do not pause between rollouts."""
        return self.sampler.rollouts(self.agent, fixed=True)

    @property
    def finished(self) -> list[Episode]:
        """The episodes that ended in the newest rollout."""
        return self.sampler.finished

    def close(self) -> None:
        """End the worker processes."""
        self.sampler.close()

    def __enter__(self) -> "RolloutSource":
        return self

    def __exit__(self, kind: type[BaseException] | None, e: BaseException | None, trace: TracebackType | None) -> None:
        self.close()


def _agent(config: Any, policy: Any, device: str) -> Any:
    spec = config.spec
    if policy == "random":
        return RandomAgent(spec.n_actions, policy_of(spec))
    if policy is None:
        return Learner(config, spec, device, derived_seed(config.seed, Stream.MODEL)).algo.agent
    if isinstance(policy, str | os.PathLike):
        policy = Run.load(policy)
    if not isinstance(policy, Run):
        if callable(policy) and not hasattr(policy, "act"):
            return FunctionAgent(spec.n_actions, policy, policy_of(spec))
        members = ("model", "needs_obs", "reentrant", "state_size", "act")
        if missing := [name for name in members if not hasattr(policy, name)]:
            raise ConfigError(
                f'policy={policy!r}: must be "random", a function, a run, its folder, None or an agent; it is no '
                f"accel_rl.agents.agent.Agent, it has no {', '.join(missing)}"
            )
        return policy
    trained = policy.agent
    if trained.obs_shape != spec.obs_shape:
        raise ConfigError(
            f"{policy.path}: its agent sees observations of shape {list(trained.obs_shape)}, the environment has "
            f"{list(spec.obs_shape)}"
        )
    return trained.agent
