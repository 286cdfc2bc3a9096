"""The spaces and metadata of a Gymnasium vector environment, which `VectorEnv` and `DeviceVectorEnv` have in common."""

import numpy as np
from gymnasium.spaces import Box, Discrete
from gymnasium.vector import AutoresetMode
from gymnasium.vector import VectorEnv as GymnasiumVectorEnv
from gymnasium.vector.utils import batch_space

from accel_rl.emulator import polar_joystick
from accel_rl.emulator.games import ACTION_MEANINGS
from accel_rl.emulator.vector_options import VectorOptions


class EmulatedVectorEnv(GymnasiumVectorEnv):
    """Base class of `VectorEnv` and `DeviceVectorEnv`."""

    def __init__(self, options: VectorOptions) -> None:
        self.options = options
        self.num_envs = options.num_envs
        self.batch_size = options.batch_size or options.num_envs
        self.render_mode = options.render_mode
        self.autoreset_mode = AutoresetMode(options.autoreset_mode)
        self.metadata = {**self.metadata, "autoreset_mode": self.autoreset_mode}
        everything = list(range(len(ACTION_MEANINGS)))
        self.action_codes = everything if options.continuous else options.action_codes()
        self.single_observation_space = Box(0, 255, options.observation_shape, np.uint8)
        self.single_action_space = polar_joystick.SPACE if options.continuous else Discrete(len(self.action_codes))
        self.observation_space = batch_space(self.single_observation_space, self.batch_size)
        self.action_space = batch_space(self.single_action_space, self.batch_size)

    def get_action_meanings(self) -> list[str]:
        """Return the names of the actions, such as NOOP and UPFIRE."""
        return [ACTION_MEANINGS[code] for code in self.action_codes]
