"""The settings of one rank of a run."""

from dataclasses import replace

from accel_rl.config.train import TrainConfig
from accel_rl.system import hardware
from accel_rl.system.placement import share_of_cores


def rank_config(
    config: TrainConfig, rank: int, local_rank: int | None = None, local_size: int | None = None
) -> TrainConfig:
    """Return the settings of one rank: its environments, device, part of the replay and share of the machine's cores.

    local_rank, local_size: index and number of the ranks on this machine. Default: all ranks are on this machine.
    """
    d = config.distributed
    if not d.several:
        return replace(config, device=d.device(0, 1, config.device))
    local, size = rank if local_rank is None else local_rank, local_size or d.size
    cores = config.sampler.cores
    if size > 1:
        cores = share_of_cores(hardware.usable_cores(cores), size, local, len(d.gpu_list))
    return replace(
        config,
        sampler=replace(config.sampler, envs=config.rank_envs, horizon=config.T, cores=cores),
        algo=config.algo.of_rank(d.size),
        device=d.device(local, size, config.device),
        wandb="disabled" if rank else config.wandb,
        log=replace(config.log, tensorboard=config.log.tensorboard and not rank),
    )
