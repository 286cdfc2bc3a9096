"""The device engine emulates games on the learner's device. On a GPU, frames are not copied to the host.

On a CPU, the device engine runs the same kernels compiled for the host, for tests and for machines without a GPU.
"""

from collections.abc import Sequence
from typing import Any

import torch

from accel_rl.data.rollout import Rollout
from accel_rl.data.rollout_arrays import SENTINEL_ACTION, RolloutArrays
from accel_rl.emulator.counter import CounterState, check_noops
from accel_rl.emulator.device.envs import DeviceEnvs, DeviceStep
from accel_rl.emulator.device.game import AgentStepRules, DeviceGame, start_table
from accel_rl.emulator.games import benchmark_games
from accel_rl.envs.atari_games import check_game
from accel_rl.envs.colors import luminance
from accel_rl.envs.emulator import EmulatorEnv
from accel_rl.envs.environment import pack_state, unpack_state
from accel_rl.envs.make import ResolvedEnv, make_env
from accel_rl.envs.sequential import decorrelation_actions, decorrelation_rng
from accel_rl.machine.devices import Device
from accel_rl.samplers.engine import EngineSetup
from accel_rl.samplers.grouping import env_seed
from accel_rl.samplers.inference.resident import resident_rollout
from accel_rl.samplers.rollout_memory import HostMemory, ResidentMemory, RolloutMemory
from accel_rl.text.errors import ConfigError


class DeviceEngine:
    """The environments use counter randomness (--env.randomness counter), with which all engines produce the same
    rollouts.

    On a GPU, the host queues the inference of actions, and then the environments' step with these actions, without
    waiting for the GPU.
    """

    def __init__(self, setup: EngineSetup, game: DeviceGame):
        self.setup, self.grouping = setup, setup.grouping
        self._groups = [setup.grouping.group(g) for g in range(setup.grouping.groups)]
        self._kind = {"kind": "counter", "game": game.game}
        B, T = setup.grouping.B, setup.T
        if Device(game.device).queues_work:
            rollouts = [resident_rollout(setup.spec, T, B, game.device) for _ in range(setup.buffers)]
            self.memory: RolloutMemory = ResidentMemory(rollouts, len(self._groups), game.device)
        else:
            self.memory = HostMemory([RolloutArrays.zeros(setup.spec, T, B) for _ in range(setup.buffers)])
        self.buffers = [self.memory.arrays(i) for i in range(setup.buffers)]
        self._seed = setup.seed
        self._envs = [DeviceEnvs(game, seeds) for seeds in self._seeds()]
        self._outs = [[[_cells(r, t, b) for b in self._groups] for t in range(T)] for r in self.memory.rollouts]
        self._joined = False

    def _seeds(self) -> list[list[int]]:
        first = self.setup.first_index
        return [[env_seed(self._seed, first + b) for b in range(group.start, group.stop)] for group in self._groups]

    def start(self, restore: bool = False) -> None:
        """`release` begins the first episodes."""

    def join(self) -> list[int]:
        """[0] at the first call, like a `WorkerPool` with one worker process."""
        joined, self._joined = ([] if self._joined else [0]), True
        return joined

    def absent(self) -> list[slice]:
        return []

    def check(self) -> None:
        """No workers that could die."""

    @torch.no_grad()
    def release(self, group: int, step_index: int, n: int = 1, workers: list[int] | None = None) -> None:
        if step_index < 0:
            self._begin(group, -1 - step_index)
            return
        for i in range(step_index, step_index + n):
            buffer, t = divmod(i, self.setup.T)
            buffer %= len(self._outs)
            action = self.memory.rollouts[buffer].action[t, self._groups[group]]
            self._envs[group].step(action, self._outs[buffer][t][group])

    def _begin(self, g: int, buffer: int) -> None:
        setup = self.setup
        envs = self._envs[g]
        seeds = self._seeds()[g]
        out = DeviceStep.empty(envs.n, envs.game)
        envs.begin(out)
        actions = [
            decorrelation_actions(decorrelation_rng(seed), setup.spec, setup.decorrelation_steps) for seed in seeds
        ]
        action = torch.full((max(map(len, actions)), envs.n), SENTINEL_ACTION)
        for i, chosen in enumerate(actions):
            action[: len(chosen), i] = torch.from_numpy(chosen)
        frame = out.frame.clone()
        for row in action.to(envs.game.device):
            envs.step(row, out)
            frame = torch.where((row >= 0)[:, None, None], out.frame, frame)
        envs.hide_history()
        rollout = self.memory.rollouts[buffer]
        rollout.frames[rollout.stack - 1, self._groups[g]] = frame
        rollout.age[0, self._groups[g]] = 0

    def wait(self, groups: Sequence[int], ahead: int = 0) -> int:
        return groups[0]

    def is_ready(self, group: int) -> bool:
        return True

    def late_resets(self) -> int:
        return 0

    def get_state(self) -> list[bytes]:
        """The format is that of `SequentialEnv`, which every engine can load."""
        return [self._packed(state) for envs in self._envs for state in envs.get_state()]

    def set_state(self, states: list[bytes]) -> None:
        """Any engine with counter randomness may have saved the states. Raises ValueError for states without it."""
        result = [self._unpacked(state) for state in states]
        if len(result) != self.grouping.B:
            raise ValueError(f"states of {len(result)} environments; this sampler has {self.grouping.B}")
        for envs, b in zip(self._envs, self._groups, strict=True):
            envs.set_state(result[b])

    def _packed(self, state: bytes) -> bytes:
        result = CounterState.from_bytes(state)
        rng: Any = decorrelation_rng(result.seed).bit_generator.state
        header = {"kind": "batch", "waiting": False, "age": result.age, "rng": rng}
        return pack_state(header, pack_state(self._kind, state))

    def _unpacked(self, state: bytes) -> bytes:
        header, blob = unpack_state(state, kind="batch")
        result = CounterState.from_bytes(unpack_state(blob, **self._kind)[1])
        return result._replace(age=header["age"]).to_bytes()

    def reseed(self, seed: int) -> None:
        self._seed, self._joined = seed, False
        for envs, seeds in zip(self._envs, self._seeds(), strict=True):
            envs.reseed(seeds)

    def close(self) -> None:
        """The memory is freed with the object."""


def _cells(rollout: Rollout, t: int, b: slice) -> DeviceStep:
    return DeviceStep(
        frame=rollout.frames[rollout.stack + t, b],
        final_frame=rollout.final_frames[t, b],
        age=rollout.age[t + 1, b],
        reward=rollout.reward[t, b],
        terminated=rollout.terminated[t, b],
        truncated=rollout.truncated[t, b],
        ended=rollout.ended[t, b],
        valid=rollout.valid[t, b],
    )


def make_device_game(config: ResolvedEnv, training: bool, cached: bool, device: str) -> DeviceGame:
    """With `cached`, episodes begin from a few stored start states of the game. Raises ConfigError."""
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


def check(config: Any) -> None:
    """Raise ConfigError for settings that the device engine does not support. `config` is resolved."""
    env = config.env
    s = config.sampler
    engine = "--sampler.engine device"
    if s.workers is not None:
        raise ConfigError(f"--sampler.workers {s.workers}: {engine} has no workers")
    if s.inference_per_worker:
        raise ConfigError(f"--sampler.inference-per-worker: {engine} has no workers")
    if s.reset not in ("immediate", "cached"):
        raise ConfigError(
            f"--sampler.reset {s.reset}: must be immediate or cached with {engine}, which begins episodes at once"
        )
    if not env.game:
        raise ConfigError(f"--env.id {env.id}: {engine} plays Atari games alone; use workers or in-process")
    if len(env.games) > 1:
        raise ConfigError(f"--env.game {env.game}: {engine} plays a single game; use workers or in-process")
    check_game(env.game)
    if not env.is_counter:
        raise ConfigError(f"--env.randomness sequence: {engine} needs counter")
    if not env.is_emulated:
        raise ConfigError(f"--env.backend {env.backend}: {engine} needs emulator, for {env.game}")
    if env.game not in benchmark_games():
        raise ConfigError(f"--env.game {env.game}: {engine} plays the 57 benchmark games; use workers or in-process")
    check_noops(env.rules().noop_max)
