"""The default settings of algorithms on a cluster with a parameter server."""

from dataclasses import replace

from accel_rl.algos.replay_algorithm import ReplayAlgorithmConfig
from accel_rl.config.registry import find_algorithm
from accel_rl.config.train import TrainConfig


def on_gorila(config: TrainConfig) -> TrainConfig:
    """Return settings for --cluster gorila: schedules count the updates of the parameters.

    An algorithm's default settings get those of Nair et al. 2015, section 5.1: the interval of the target network, and
    for DQN the optimizer, with a network and a learning rate that the paper does not give. An experiment keeps its own.
    """
    algo = config.algo
    if isinstance(algo, ReplayAlgorithmConfig):
        is_default = algo == find_algorithm(config.algorithm).Config()
        algo = replace(algo, target_unit="updates", epsilon_unit="updates")
        if is_default:
            algo = replace(algo, target_interval=60_000)
        if is_default and config.algorithm == "dqn":
            algo = replace(algo, network="nature", optimizer="adagrad", learning_rate=0.003)  # type: ignore[call-arg]
    return replace(config, algo=algo, cluster="gorila")
