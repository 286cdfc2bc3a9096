"""Tables 1 to 3 report the speed for different numbers of simulators and GPUs. `accel-rl report` prints each table in
the paper's layout. This project uses Breakout for Tables 2 and 3, because the paper does not name the game."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from accel_rl.agents.agent import Agent
from accel_rl.algos.algorithm import Loss
from accel_rl.algos.policy_gradient import PolicyBatch, PolicyGradient, PolicyGradientConfig
from accel_rl.data.rollout import Rollout
from accel_rl.data.spec import EnvSpec
from accel_rl.papers.stooke.algorithm_experiments import a2c_ranks, a3c, appo, async_dqn, ppo_ranks
from accel_rl.papers.stooke.figure_experiments import variant
from accel_rl.papers.stooke.stooke_settings import together
from accel_rl.settings.train import TrainConfig, default_config
from accel_rl.sweeps.grid import Level, levels
from accel_rl.training.stored_agents import check_policy, load_policy

SIMULATORS = (64, 128, 256, 512)
"""`SIMULATORS` lists the total number of simulators in each row of Table 1."""
LEARNERS = 8
"""In Table 1, there are eight learners, one per GPU."""
STEPS = 2_000_000
"""`STEPS` is the number of env steps of a measurement, about a minute at the paper's speeds."""


@dataclass(frozen=True)
class SamplingOnlyConfig(PolicyGradientConfig):
    policy: str = ""
    """Folder of a run of a2c, ppo or impala with the same network and game, whose newest checkpoint acts. By default an
    untrained network acts, whose inference takes the same time."""

    def check(self) -> None:
        super().check()
        if self.policy:
            check_policy("--algo.policy", self.policy)


class SamplingOnly(PolicyGradient[SamplingOnlyConfig]):
    """Acts without learning. After every rollout, synchronous ranks synchronize as for an update. Asynchronous ranks
    run independently."""

    Config = SamplingOnlyConfig

    def build_agent(self, spec: EnvSpec) -> Agent:
        agent = super().build_agent(spec)
        if self.config.policy:
            load_policy(agent, self.config.policy)
        return agent

    def ingest(self, rollout: Rollout) -> None:
        """Do nothing, because the algorithm does not learn."""

    def batches(self) -> Iterator[PolicyBatch]:
        return iter(())

    def loss(self, batch: PolicyBatch) -> Loss:
        raise AssertionError("there is no batch")


def sampling_only(game: str, envs: int, horizon: int, policy: str = "", seed: int = 0) -> TrainConfig:
    """A run in which A3C-Net acts in `envs` environments, without learning."""
    base = default_config("accel_rl.papers.stooke.table_experiments:SamplingOnly")
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


GPUS = (1, 2, 4, 8)


@levels({"simulators": SIMULATORS}, {"mode": ("sync", "async")}, seeds=(0,))
def table_1(simulators: int = 256, mode: str = "sync", policy: str = "", seed: int = 0) -> TrainConfig:
    """Table 1 reports the samples/s of 8 ranks that only sample, with A3C-Net on Breakout. With the mode `sync`, all
    ranks synchronize every five steps; with `async`, each rank samples independently. `policy` is the folder of a run
    whose agent acts. By default an untrained network acts, whose inference takes the same time."""
    if mode not in ("sync", "async") or simulators < 1 or simulators % LEARNERS:
        raise ValueError(f"mode={mode!r}, simulators={simulators}: sync or async, and a multiple of {LEARNERS}")
    if mode == "sync":
        return together(sampling_only("breakout", simulators, 5, policy, seed), LEARNERS)
    return together(sampling_only("breakout", simulators // LEARNERS, 5, policy, seed), LEARNERS, update="async")


@levels(
    Level(
        {
            "gpus": (*GPUS, *GPUS[1:], *GPUS, *GPUS[1:]),  # There is no asynchronous variant with a single learner.
            "algorithm": ("a2c",) * 4 + ("a3c",) * 3 + ("ppo",) * 4 + ("appo",) * 3,
        }
    ),
    seeds=(0,),
)
def table_2(gpus: int = 1, algorithm: str = "a2c", seed: int = 0) -> TrainConfig:
    """Table 2 reports the hours for 50 M env steps of policy gradients for each number of GPUs. A2C and A3C use 16
    environments per GPU, and PPO and APPO use 8."""
    make: Any = {"a2c": a2c_ranks, "a3c": a3c, "ppo": ppo_ranks, "appo": appo}[algorithm]
    return _timed(make(game="breakout", ranks=gpus, seed=seed))


@levels(
    Level(
        {
            "gpus": (*GPUS, 4, *GPUS, *GPUS),
            "algorithm": ("dqn-512",) * 4 + ("async-dqn-512",) + ("rainbow-512",) * 4 + ("c51-2048",) * 4,
        }
    ),
    seeds=(0,),
)
def table_3(gpus: int = 1, algorithm: str = "dqn-512", seed: int = 0) -> TrainConfig:
    """Table 3 reports the hours for 50 M env steps of synchronous Q-learning for each number of GPUs, and of
    asynchronous DQN on 4 GPUs (*)."""
    if algorithm == "async-dqn-512":
        return _timed(async_dqn("breakout", gpus, 512, seed))
    return _timed(together(variant("breakout", algorithm, seed), gpus))


def _timed(config: TrainConfig) -> TrainConfig:
    """Return the settings without evaluations, so that only training is timed."""
    return replace(config, evaluation=replace(config.evaluation, interval=0))
