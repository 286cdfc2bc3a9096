"""The device engine steps environments on the learner's device: emulated games, or a user's vector environment whose
arrays are tensors. On a GPU, frames are not copied to the host.

On a CPU, the device engine runs the same kernels compiled for CPUs, for tests and for machines without a GPU.
"""

from collections.abc import Callable
from typing import Any, Protocol

import torch
from torch import Tensor

from accel_rl.data.rollout import Rollout
from accel_rl.data.rollout_arrays import RolloutArrays
from accel_rl.emulator.counter import check_noops
from accel_rl.emulator.device.envs import DeviceStep
from accel_rl.emulator.games import benchmark_games
from accel_rl.envs.atari_games import check_game
from accel_rl.envs.vectorized import is_vectorized
from accel_rl.machine.devices import Device
from accel_rl.samplers.engine import EngineSetup, WithoutWorkers
from accel_rl.samplers.grouping import env_seed
from accel_rl.samplers.inference.resident import resident_rollout
from accel_rl.samplers.rollout_memory import HostMemory, ResidentMemory, RolloutMemory
from accel_rl.text.errors import ConfigError


class DeviceBatch(Protocol):
    """n environments whose results are written to the device's memory."""

    n: int

    def begin(self) -> Tensor:
        """Begin an episode in each environment, and return the first frames [n, *frame_shape]."""

    def step(self, action: Tensor, out: DeviceStep) -> None:
        """Play an agent step with `action` [n, *action_shape]; a sentinel value skips an environment. If an episode
        ends, the next episode begins within the same step, or with one more step that is marked as not valid."""

    def reseed(self, seeds: list[int]) -> None:
        """Set the seeds of all environments for the next call of `begin`."""

    def get_state(self) -> list[bytes]: ...

    def set_state(self, states: list[bytes]) -> None:
        """Restore saved states. Raises ValueError for a wrong number of states, or for states of other environments."""


MakeBatch = Callable[[list[int], int], DeviceBatch]
"""Creates the environments of one group, given their seeds and the first environment's index in the run."""


class DeviceEngine(WithoutWorkers):
    """Steps the environments on the device. On a GPU, the host queues the inference of actions and then the step with
    these actions, without waiting for the GPU."""

    def __init__(self, setup: EngineSetup, device: torch.device, make: MakeBatch):
        self.setup, self.grouping = setup, setup.grouping
        self._groups = [setup.grouping.group(g) for g in range(setup.grouping.groups)]
        B, T = setup.grouping.B, setup.T
        if Device(device).queues_work:
            rollouts = [resident_rollout(setup.spec, T, B, device) for _ in range(setup.buffers)]
            self.memory: RolloutMemory = ResidentMemory(rollouts, len(self._groups), device)
        else:
            self.memory = HostMemory([RolloutArrays.zeros(setup.spec, T, B) for _ in range(setup.buffers)])
        self.buffers = [self.memory.arrays(i) for i in range(setup.buffers)]
        self._seed = setup.seed
        firsts = (setup.first_index + group.start for group in self._groups)
        self._envs = [make(seeds, first) for seeds, first in zip(self._seeds(), firsts, strict=True)]
        self._outs = [[[_cells(r, t, b) for b in self._groups] for t in range(T)] for r in self.memory.rollouts]

    def _seeds(self) -> list[list[int]]:
        first = self.setup.first_index
        return [[env_seed(self._seed, first + b) for b in range(group.start, group.stop)] for group in self._groups]

    def start(self, restore: bool = False) -> None:
        """Do nothing, because `release` begins the first episodes."""

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
        rollout = self.memory.rollouts[buffer]
        rollout.frames[rollout.stack - 1, self._groups[g]] = self._envs[g].begin()
        rollout.age[0, self._groups[g]] = 0

    def late_resets(self) -> int:
        return 0

    def get_state(self) -> list[bytes]:
        return [state for envs in self._envs for state in envs.get_state()]

    def set_state(self, states: list[bytes]) -> None:
        """Restore saved states. Raises ValueError for a wrong number of states, or for states of other environments."""
        if len(states) != self.grouping.B:
            raise ValueError(f"states of {len(states)} environments; this sampler has {self.grouping.B}")
        for envs, b in zip(self._envs, self._groups, strict=True):
            envs.set_state(states[b])

    def reseed(self, seed: int) -> None:
        self._seed, self._has_joined = seed, False
        for envs, seeds in zip(self._envs, self._seeds(), strict=True):
            envs.reseed(seeds)

    def close(self) -> None:
        """Do nothing, because the memory is freed with the object."""


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


def check(config: Any) -> None:
    """Raise ConfigError for settings that the device engine does not support."""
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
    if env.id:
        if not is_vectorized(env.id):
            needs = "plays Atari games and vector environments (module:function with the parameter num_envs)"
            raise ConfigError(f"--env.id {env.id}: {engine} {needs}; use workers or in-process")
        if env.mask_in_info:
            raise ConfigError(f"--env.action-mask info: {engine} has no action masks; use in-process")
        return
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
