"""Makes a game's tables for a device from its settings."""

from accel_rl.emulator.device.game import AgentStepRules, DeviceGame
from accel_rl.emulator.device.starts import start_table
from accel_rl.envs.emulator import EmulatorEnv
from accel_rl.envs.make import EnvConfig, make_env
from accel_rl.envs.palette import luminance


def make_device_game(config: EnvConfig, training: bool, cached: bool, device: str) -> DeviceGame:
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
    starts = start_table(env.core, env.counter.starts, env.spec.frame_shape)
    return DeviceGame(config.game, steps, env.codes.tolist(), luminance(rows), starts, device)
