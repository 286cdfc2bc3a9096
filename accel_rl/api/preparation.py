"""Checks before a run's folder is created: first the settings, then whether this machine can execute the run's plan."""

import importlib

import torch

from accel_rl.machine import hardware
from accel_rl.metrics.sinks import check_tensorboard
from accel_rl.metrics.wandb import check_wandb
from accel_rl.planning.plan import RunPlan
from accel_rl.planning.plan_report import check_memory
from accel_rl.settings.resolved import Resolved, resolve
from accel_rl.settings.train import TrainConfig
from accel_rl.text.errors import ConfigError
from accel_rl.training import observers
from accel_rl.training.learner import build_algorithm
from accel_rl.training.seeds import own_generator


def checked(given: TrainConfig) -> Resolved:
    """Raises ConfigError for impossible settings. The plan of the run checks cores and GPUs later."""
    config = resolve(given)
    if config.log.tensorboard:
        check_tensorboard()
    check_wandb(config.wandb)
    observers.check(config)
    if config.mode.over_ray:
        importlib.import_module(config.mode.module).check(config)
    return config


def check_machine(plan: RunPlan) -> None:
    """Raise ConfigError if games cannot be emulated on the device, if the network cannot process the observations, if
    the device's memory is too small for the learner, or if this machine's memory is too small for all ranks."""
    config, first = plan.config, plan.ranks[0]
    if first.sampler.on_device and first.device.startswith("cuda"):
        from accel_rl.emulator.device import cuda

        cuda.check(first.device)
    _check_network(plan.rank_configs[0], first.device)
    config.algo.check_spec(config.spec, first.device)
    if not config.mode.over_ray:
        check_memory(plan)


def _check_network(config: Resolved, device: str) -> None:
    """Raise ConfigError if the network cannot be built, or does not fit in the device's memory. The check builds the
    network without memory for its parameters, except for a user's module."""
    try:
        with own_generator("cpu", config.seed), torch.device("meta"):
            algo = build_algorithm(config, config.spec, "meta")
    except ConfigError:
        raise
    except Exception as e:  # Errors other than a network's size are ignored, because the run raises them again.
        if "overflow" in str(e):
            raise ConfigError(f"the network is too large: {' '.join(str(e).split())}") from e
        return
    # Each parameter needs at least three float32 numbers: parameter, gradient and optimizer state.
    need, free = 12 * sum(p.numel() for p in algo.agent.model.parameters()), hardware.free_memory(device)
    if need > free:
        raise ConfigError(
            f"the network and its optimizer need {need / 2**30:.1f} GiB on {device}, where {free / 2**30:.1f} GiB are "
            "free: use a smaller network"
        )
