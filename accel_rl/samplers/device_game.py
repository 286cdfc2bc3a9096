"""Makes a game's tables for a device from its settings."""

import numpy as np

from accel_rl.emulator.device.game import AgentStepRules, DeviceGame, Starts
from accel_rl.envs.emulator import EmulatorEnv
from accel_rl.envs.make import EnvConfig, make_env
from accel_rl.envs.palette import luminance
from accel_rl.system.devices import Device


def make_device_game(config: EnvConfig, training: bool, cached: bool, device: Device) -> DeviceGame:
    """Make the tables of an Atari game with counter randomness. cached: a few stored start states. ConfigError."""
    env = make_env(config, 0, training, cached)
    assert isinstance(env, EmulatorEnv) and env.counter is not None
    rules = env.rules
    steps = AgentStepRules(
        frame_skip=rules.frame_skip,
        max_steps=rules.max_episode_steps,
        life_loss=rules.life_loss_ends_return,
        repeat_probability=rules.repeat_action_probability,
        frame=rules.frame,
        oldest=env.spec.oldest,
    )
    rows = env.core.screen().shape[0]
    return DeviceGame(config.game, steps, env.codes.tolist(), luminance(rows), start_table(env), device)


def start_table(env: EmulatorEnv) -> Starts:
    """Play every start that an episode of the environment can have; see envs.counter. A row has one timer."""
    assert env.counter is not None
    starts = env.counter.starts
    plays: list[list[np.ndarray]] = []
    frames = np.zeros((len(starts), len(starts[0]), *env.spec.frame_shape), np.uint8)
    frame = np.zeros((1, *env.spec.frame_shape), np.uint8)
    for r, row in enumerate(starts):
        plays.append([])
        for c, (timer, noops) in enumerate(row):
            if c:
                env.wait_at(timer, noops - row[c - 1][1])
            else:
                env.start_at(timer, noops)
            env.core.begin(frame)
            frames[r, c] = frame[0]
            plays[r].append(np.frombuffer(env.core.play(), np.uint8))
    return Starts(np.array(plays), frames)
