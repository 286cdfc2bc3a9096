"""Emulated games as environments of the device engine."""

from typing import Any

import torch
from torch import Tensor

from accel_rl.data.rollout_arrays import SENTINEL_ACTION
from accel_rl.emulator.counter import CounterState
from accel_rl.emulator.device.envs import DeviceEnvs, DeviceStep
from accel_rl.emulator.device.game import AgentStepRules, DeviceGame, begin_translation, start_table
from accel_rl.envs.colors import luminance
from accel_rl.envs.emulator import EmulatorEnv
from accel_rl.envs.environment import pack_state, unpack_state
from accel_rl.envs.make import ResolvedEnv, make_env
from accel_rl.envs.sequential import decorrelation_actions, decorrelation_rng
from accel_rl.samplers.engine import EngineSetup


class DeviceGames:
    """Environments of one game with --env.randomness counter, with which all engines produce the same rollouts."""

    def __init__(self, setup: EngineSetup, game: DeviceGame, seeds: list[int]):
        self._setup, self._seed_list = setup, seeds
        self._envs, self.n = DeviceEnvs(game, seeds), len(seeds)
        self._kind = {"kind": "counter", "game": game.game}

    def step(self, action: Tensor, out: DeviceStep) -> None:
        self._envs.step(action, out)

    def begin(self) -> Tensor:
        envs = self._envs
        out = DeviceStep.empty(envs.n, envs.game)
        envs.begin(out)
        most = self._setup.decorrelation_steps
        actions = [decorrelation_actions(decorrelation_rng(seed), self._setup.spec, most) for seed in self._seed_list]
        action = torch.full((max(map(len, actions)), envs.n), SENTINEL_ACTION)
        for i, chosen in enumerate(actions):
            action[: len(chosen), i] = torch.from_numpy(chosen)
        frame = out.frame.clone()
        for row in action.to(envs.game.device):
            envs.step(row, out)
            frame = torch.where((row >= 0)[:, None, None], out.frame, frame)
        envs.hide_history()
        return frame

    def reseed(self, seeds: list[int]) -> None:
        self._seed_list = seeds
        self._envs.reseed(seeds)

    def get_state(self) -> list[bytes]:
        """Return the states in the format of `SequentialEnv`, which every engine can load."""
        return [self._sequence_state(state) for state in self._envs.get_state()]

    def set_state(self, states: list[bytes]) -> None:
        """Restore states that any engine has saved with --env.randomness counter. Raises ValueError for a state of
        another kind of environment."""
        self._envs.set_state([self._counter_state(state) for state in states])

    def _sequence_state(self, state: bytes) -> bytes:
        result = CounterState.from_bytes(state)
        rng: Any = decorrelation_rng(result.seed).bit_generator.state
        header = {"kind": "batch", "waiting": False, "age": result.age, "rng": rng}
        return pack_state(header, pack_state(self._kind, state))

    def _counter_state(self, state: bytes) -> bytes:
        header, blob = unpack_state(state, kind="batch")
        result = CounterState.from_bytes(unpack_state(blob, **self._kind)[1])
        return result._replace(age=header["age"]).to_bytes()


def make_device_game(config: ResolvedEnv, training: bool, cached: bool, device: str) -> DeviceGame:
    """Load a game. With `cached`, episodes begin in one of a few stored start states. Raises ConfigError."""
    translated = begin_translation(config.game, device, config.translate == "auto")
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
    return DeviceGame(config.game, steps, env.codes.tolist(), luminance(rows), starts, device, translated)
