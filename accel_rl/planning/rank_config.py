"""Derives the settings of one rank from the settings of a run."""

from dataclasses import replace

from accel_rl.algos.replay_algorithm import ReplayAlgorithmConfig
from accel_rl.machine import hardware
from accel_rl.machine.placement import cores_of_rank
from accel_rl.optim.optimizers import is_adam
from accel_rl.settings.resolved import Resolved
from accel_rl.text.errors import ConfigError


def check(config: Resolved) -> None:
    """Raise ConfigError for settings that are impossible with several ranks."""
    d, ranks = config.distributed, config.distributed.size
    if d.local_updates > 1 and not is_adam(optimizer := config.algo.optimizer):
        raise ConfigError(
            f"--distributed.local-updates {d.local_updates}: needs --algo.optimizer adam, not {optimizer}"
        )
    if d.is_async:
        if config.secondary.batch:
            raise ConfigError(f"--secondary.batch {config.secondary.batch}: only with --update all-reduce")
        return
    shared = {"--envs": config.sampler.envs}
    if isinstance(config.algo, ReplayAlgorithmConfig):
        shared |= {"--batch-size": config.algo.batch_size, "--secondary.batch": config.secondary.batch}
    for flag, n in shared.items():
        if n % ranks:
            raise ConfigError(f"{flag} {n}: must divide by {ranks} ranks; use {-(-n // ranks) * ranks}")


def rank_config(config: Resolved, rank: int, local_rank: int | None = None, local_size: int | None = None) -> Resolved:
    """The settings of one rank: its environments, device, part of the replay buffer and share of the machine's cores.
    `local_rank` is the rank's index among the ranks of this machine, and `local_size` is their number."""
    d = config.distributed
    if not d.several:
        return replace(config, device=d.device(0, 1, config.device))
    local, size = rank if local_rank is None else local_rank, local_size or d.size
    of_bundle, envs, cores = config.sampler, config.rank_envs, config.sampler.cores
    first = of_bundle.first_env + rank * envs
    if size > 1:
        cores = cores_of_rank(hardware.usable_cores(cores), d.gpu_list, size, local)
    return replace(
        config,
        sampler=replace(
            of_bundle, envs=envs, cores=cores, first_env=first, run_envs=of_bundle.run_envs or d.size * envs
        ),
        algo=config.algo.of_rank(d.size),
        device=d.device(local, size, config.device),
        wandb="disabled" if rank else config.wandb,
        callback=() if rank else config.callback,
        sink=() if rank else config.sink,
        log=replace(config.log, tensorboard=config.log.tensorboard and not rank),
    )
