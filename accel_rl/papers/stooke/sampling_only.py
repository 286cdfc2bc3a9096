"""This module measures sampling without learning, for Table 1 of Stooke & Abbeel 2018."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from accel_rl.agents.agent import Agent
from accel_rl.algos.algorithm import Loss
from accel_rl.algos.policy_gradient import PolicyBatch, PolicyGradient, PolicyGradientConfig
from accel_rl.config.train import TrainConfig, default_config
from accel_rl.data.rollout import Rollout
from accel_rl.data.spec import EnvSpec
from accel_rl.runners.stored_agents import check_policy, load_policy

SIMULATORS = (64, 128, 256, 512)
"""The rows of Table 1 have `SIMULATORS` simulators in total."""
LEARNERS = 8
"""Table 1 has eight learners, one per GPU."""
STEPS = 2_000_000
"""Number of env steps of a measurement, about a minute at the paper's speeds."""


@dataclass(frozen=True)
class SamplingOnlyConfig(PolicyGradientConfig):
    """`SamplingOnlyConfig` has the settings of a network that acts without learning."""

    policy: str = ""
    """Folder of a run of a2c, ppo or impala with the same network and game, whose newest checkpoint acts. By default an
    untrained network acts, whose inference takes the same time."""

    def check(self) -> None:
        super().check()
        if self.policy:
            check_policy("--algo.policy", self.policy)


class SamplingOnly(PolicyGradient):
    """`SamplingOnly` is an algorithm that acts without learning. Synchronous ranks synchronize after every rollout, as
    for an update. Asynchronous ranks run independently."""

    Config = SamplingOnlyConfig

    def build_agent(self, spec: EnvSpec) -> Agent:
        agent = super().build_agent(spec)
        if self.config.policy:
            load_policy(agent, self.config.policy)
        return agent

    def ingest(self, rollout: Rollout) -> None:
        """Ignore the rollout, because the algorithm does not learn."""

    def batches(self) -> Iterator[PolicyBatch]:
        return iter(())

    def loss(self, batch: PolicyBatch) -> Loss:
        raise AssertionError("there is no batch")


def sampling_only(game: str, envs: int, horizon: int, policy: str = "", seed: int = 0) -> TrainConfig:
    """Return a run that only samples, with A3C-Net in `envs` environments."""
    base = default_config("accel_rl.papers.stooke.sampling_only:SamplingOnly")
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
