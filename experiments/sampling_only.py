"""Sampling and nothing else, in the runner that trains: what Table 1 of Stooke & Abbeel 2018 measures."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from accel_rl.agents.categorical import CategoricalPolicyAgent
from accel_rl.algos.base import Loss
from accel_rl.algos.policy_gradient import PolicyGradient, PolicyGradientConfig
from accel_rl.config.train import TrainConfig, default_config
from accel_rl.data.rollout import Rollout
from accel_rl.data.spec import EnvSpec
from accel_rl.optim.factory import make_optimizer
from accel_rl.optim.optimizer import Optimizer
from accel_rl.runners.trained_policy import check_policy, load_policy

SIMULATORS = (64, 128, 256, 512)
"""Table 1's rows: of all learners together."""
LEARNERS = 8
"""Of Table 1, one a GPU."""
STEPS = 2_000_000
"""Env steps of a measurement: about a minute at the paper's speeds."""


@dataclass(frozen=True)
class SamplingOnlyConfig(PolicyGradientConfig):
    """A policy's network, and where its parameters come from."""

    policy: str = ""
    """Folder of a run of a2c, ppo or impala with the same network and game, whose newest checkpoint acts. Default: an
    untrained network, whose inference takes as long."""

    def check(self) -> None:
        super().check()
        if self.policy:
            check_policy("--algo.policy", self.policy)


class SamplingOnly(PolicyGradient):
    """Acts, and never learns. Synchronous ranks meet after every rollout, as they would for an update; asynchronous
    ones run on their own."""

    Config = SamplingOnlyConfig

    def build_agent(self, spec: EnvSpec) -> CategoricalPolicyAgent:
        agent = super().build_agent(spec)
        if self.config.policy:
            load_policy(agent, self.config.policy)
        return agent

    def build_optimizer(self, size: int) -> Optimizer:
        return make_optimizer("adam", size, alpha=0.0, epsilon=self.config.optimizer_eps, device=str(self.device))

    def ingest(self, rollout: Rollout) -> None:
        """Nothing is learned from it."""

    def batches(self) -> Iterator[None]:
        return iter(())

    def loss(self, batch: None) -> Loss:
        raise AssertionError("there is no batch")


def sampling_only(game: str, envs: int, horizon: int, policy: str = "", seed: int = 0) -> TrainConfig:
    """A run of `envs` environments that samples with A3C-Net."""
    base = default_config("experiments.sampling_only:SamplingOnly")
    return replace(
        base,
        env=replace(base.env, game=game),
        algo=replace(base.algo, policy=policy),  # type: ignore[call-arg]
        sampler=replace(base.sampler, envs=envs, horizon=horizon),
        evaluation=replace(base.evaluation, interval=0),
        checkpoint=replace(base.checkpoint, interval=0),
        env_steps=STEPS,
        seed=seed,
    )
