"""`--cluster gorila`: a run on a Ray cluster, from its settings to its result."""

from contextlib import AbstractContextManager
from typing import Any

from accel_rl.algos.replay_algorithm import ReplayAlgorithmConfig
from accel_rl.config.train import TrainConfig
from accel_rl.envs.make import make_spec
from accel_rl.gorila.driver import Driver
from accel_rl.gorila.resources import share_of
from accel_rl.gorila.running_cluster import check_address, cluster_ray
from accel_rl.gorila.session import check_ray, local_ray
from accel_rl.models.network_state import network_state
from accel_rl.runners.learner import build_algorithm
from accel_rl.runners.result import Result
from accel_rl.runners.run_folder import RunFolder
from accel_rl.runners.seeds import own_generator
from accel_rl.system import hardware
from accel_rl.system.errors import ConfigError


def train(config: TrainConfig, run: RunFolder, state: dict[str, Any] | None) -> Result:
    """Train from a checkpoint's state, or from the beginning (None). ConfigError, RunError."""
    with ray_of(config) as ray:
        return Driver(ray, config, run, state).train()


def check(config: TrainConfig) -> None:
    """Raise ConfigError, one line, for what is impossible on this machine, before any process starts.

    On the machines of a running cluster each member checks its own memory.
    """
    _check_fit(config)
    _check_network(config)
    check_ray()


def _check_fit(config: TrainConfig) -> None:
    g = config.gorila
    if config.address:
        check_address(config.address)
        return
    share_of([len(hardware.usable_cores(config.sampler.cores))], g.members, g.bundle_cpus, "bundle-cpus", "cores")
    if isinstance(config.algo, ReplayAlgorithmConfig):
        replay, replays = config.algo.replay, g.bundles if g.replay == "local" else 1
        need = replays * replay.size * replay.bytes_each(make_spec(config.env, training=True))
        free = 0.95 * hardware.free_memory("cpu")
        if need > free and replay.where("cpu") == "cpu":
            raise ConfigError(
                f"--replay.size {replay.size}: the replays of {replays} bundles need {need / 2**30:.2f} GiB, where "
                f"{free / 2**30:.2f} GiB are free; at most {int(replay.size * free / need)}"
            )


def _check_network(config: TrainConfig) -> None:
    """Raise ConfigError for a network with buffers, of which each member would have others than are evaluated.

    Members build frozen parameters from the run's seed, but bundles of several ranks each have a seed of their own.
    """
    with own_generator("cpu", seed=0):
        model = build_algorithm(config, make_spec(config.env, training=True), "cpu").agent.model
    parameters = dict(model.named_parameters())
    if buffers := [name for name in network_state(model) if name not in parameters]:
        raise ConfigError(
            f"--cluster gorila: the shards hold parameters alone, and {config.algorithm}'s network has buffers "
            f"({buffers[0]}); a constant one can be registered with persistent=False"
        )
    if config.distributed.several and (frozen := [name for name, p in parameters.items() if not p.requires_grad]):
        raise ConfigError(
            f"--cluster gorila with --update async: frozen parameters would differ between bundles ({frozen[0]}); "
            "leave out --update"
        )


def ray_of(config: TrainConfig) -> AbstractContextManager[Any]:
    """Connect to the Ray cluster at --address, or start Ray on this machine. ConfigError, RunError."""
    if config.address:
        return cluster_ray(config.address)
    return local_ray(cpus=len(hardware.usable_cores(config.sampler.cores)))
