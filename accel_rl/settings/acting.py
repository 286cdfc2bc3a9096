"""Derives, from a run's settings, the settings with which its trained network acts on this machine."""

from dataclasses import dataclass, replace

from accel_rl.envs.make import EnvConfig, emulator_is_built, played_by
from accel_rl.machine import hardware
from accel_rl.settings.resolved import Resolved, check_starts, fill_in
from accel_rl.settings.sampler_config import SamplerConfig
from accel_rl.settings.train import TrainConfig
from accel_rl.settings.types import check_types
from accel_rl.text.errors import ConfigError
from accel_rl.text.notes import say_once


@dataclass(frozen=True)
class ActingEnv:
    """Options of commands that load a network."""

    backend: str = ""
    """Backend of an Atari game: ale, emulator or auto. By default, the run's backend is used. If the run's backend is
    not compiled, ale is used, and a message is logged."""


def acting_config(config: TrainConfig, device: str = "", backend: str = "") -> Resolved:
    """The settings that evaluations, videos and acting need (network, environment, protocol and evaluation), and
    defaults for all other settings.

    Settings for the training machine, such as GPUs or a cluster, therefore do not prevent an evaluation on another
    machine. `device` and `backend` override the run's values. Where `device` or `backend` is "", the run's device or
    backend is used. If this machine lacks the run's device or backend, another one is chosen and logged. Raises
    ConfigError, with a message of one line.
    """
    env = played_by(config.env, backend) if backend else _playable(config.env)
    gpus = config.distributed.named_gpus
    device = device or _available(hardware.gpu_name(gpus[0]) if gpus else config.device)
    s = config.sampler
    # On a CPU, worker processes play the same episodes faster than the device engine.
    engine = "workers" if s.on_device and (device == "cpu" or env.backend != config.env.backend) else s.engine
    given = TrainConfig(
        algorithm=config.algorithm,
        env=env,
        algo=config.algo,
        sampler=SamplerConfig(
            envs=s.envs, horizon=config.T, engine=engine, timeout_s=s.timeout_s, start_timeout_s=s.start_timeout_s
        ),
        evaluation=config.evaluation,
        env_steps=config.env_steps,
        seed=config.seed,
        device=device,
    )
    check_types(given.evaluation, "evaluation.")
    given.evaluation.check()
    acting = fill_in(given)
    acting.env.check(acting.sampler.spec_timeout_s)
    check_starts(acting)
    return acting


def _available(device: str) -> str:
    if device == "auto":
        return device if hardware.gpu_count() else "cpu"
    try:
        return hardware.available_device(device, "--device")
    except ConfigError:
        result = hardware.gpu_name() if hardware.gpu_count() else "cpu"
        say_once(f"the run's device {device} is not on this machine: acting on {result}")
        return result


def _playable(env: EnvConfig) -> EnvConfig:
    if env.backend != "emulator" or emulator_is_built():
        return env
    if env.randomness == "counter":
        say_once("without the emulator, random numbers of resets are a sequence: episodes are not those of the run")
    return replace(env, backend="ale", randomness="sequence")
