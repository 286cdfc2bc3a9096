"""This module has the default settings of algorithms on a cluster with a parameter server."""

from dataclasses import replace

from accel_rl.algos.replay_algorithm import ReplayAlgorithmConfig
from accel_rl.config.gorila_settings import GorilaConfig
from accel_rl.config.registry import find_algorithm
from accel_rl.config.train import TrainConfig


def on_gorila(config: TrainConfig, is_atari: bool = True) -> TrainConfig:
    """Return settings for --cluster gorila, in which schedules count the updates of the parameters.

    An algorithm's default settings are replaced by those of Nair et al. 2015. The replaced settings are the interval of
    the target network (section 5.1), the guard against outliers (section 4.2, only for Q-learning with clipped
    rewards), and for DQN the network (section 5.1). The optimizer stays RMSProp, because the paper does not report the
    learning rate of its AdaGrad, and this project has not searched for one. If the settings come from an experiment,
    they are not replaced. `is_atari` is true if rewards are clipped by default.
    """
    algo, gorila = config.algo, config.gorila
    if isinstance(algo, ReplayAlgorithmConfig):
        is_default = algo == find_algorithm(config.algorithm).Config()
        algo = replace(algo, target_unit="updates", epsilon_unit="updates")
        if is_default:
            algo = replace(algo, target_interval=60_000)
        if is_default and config.algorithm == "dqn":
            algo = replace(algo, network="nature")  # type: ignore[call-arg]
        if gorila == GorilaConfig() and is_atari:
            gorila = replace(gorila, outlier_deviations=5.0)
    return replace(config, algo=algo, gorila=gorila, cluster="gorila")
