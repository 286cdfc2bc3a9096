"""A common interface for the replays of other packages, which are configured as their manuals recommend.

`B` simulators fill all replays with stacks of four pictures of 84x84, which each package stores as compactly as it can.
A replay has the attribute `bytes_each` (bytes per transition) and the methods:

    | append() -> number of transitions      one step of every simulator
    | sample(N)                              observations before and after, actions, rewards, ends
    | sample_and_update(N)                   the same, and new priorities for them
"""

import functools
from typing import Any

import numpy as np

H, W, STACK = 84, 84, 4
EPISODE = 500  # Number of steps of each stored episode


@functools.cache
def priorities(N: int) -> np.ndarray:
    """Return random priorities [N] float32, which are cached, because the time to draw them must not be measured."""
    return np.random.default_rng(0).random(N, dtype=np.float32)  # TorchRL refuses float64.


class SB3:
    """stable_baselines3.common.buffers.ReplayBuffer. With optimize_memory_usage, SB3's replay stores each complete
    stack of frames once."""

    package, kinds = "stable_baselines3", ("uniform",)

    def __init__(self, capacity: int, B: int, prioritized: bool, rng: np.random.Generator):
        from gymnasium.spaces import Box, Discrete
        from stable_baselines3.common.buffers import ReplayBuffer

        self.buffer = b = ReplayBuffer(
            capacity, Box(0, 255, (STACK, H, W), np.uint8), Discrete(6), "cpu", B, optimize_memory_usage=True,
            handle_timeout_termination=False,
        )  # fmt: skip
        b.observations[:] = rng.integers(0, 256, (1, *b.observations.shape[1:]), dtype=np.uint8)
        b.rewards[:], b.full = 1.0, True
        self.step = (b.observations[0].copy(), b.observations[1].copy(), np.zeros(B), np.ones(B), np.zeros(B))
        self.infos: list[dict[str, Any]] = [{} for _ in range(B)]
        self.bytes_each = (b.observations.nbytes + b.actions.nbytes + b.rewards.nbytes + b.dones.nbytes) / capacity

    def append(self) -> int:
        self.buffer.add(*self.step, self.infos)
        return len(self.infos)

    def sample(self, N: int) -> None:
        self.buffer.sample(N)


class Tianshou:
    """tianshou.data.ReplayBuffer or PrioritizedReplayBuffer. With stack_num=4, Tianshou's replay stores only the newest
    frame of each stack."""

    package, kinds = "tianshou", ("uniform", "prioritized")

    def __init__(self, capacity: int, B: int, prioritized: bool, rng: np.random.Generator):
        from tianshou.data import Batch, PrioritizedReplayBuffer, ReplayBuffer

        options: dict[str, Any] = {"stack_num": STACK, "ignore_obs_next": True, "save_only_last_obs": True}
        options |= {"alpha": 0.5, "beta": 0.4} if prioritized else {}
        self.buffer = (PrioritizedReplayBuffer if prioritized else ReplayBuffer)(capacity, **options)
        frame = rng.integers(0, 256, (STACK, H, W), dtype=np.uint8)
        self._t = 0
        self._step = lambda end: Batch(
            obs=frame, act=0, rew=1.0, terminated=end, truncated=False, obs_next=frame, info={}, policy={}
        )
        while len(self.buffer) < capacity:
            self.append()
        self.bytes_each = sum(x.nbytes for x in _arrays(self.buffer._meta)) / capacity

    def append(self) -> int:
        self._t += 1
        self.buffer.add(self._step(self._t % EPISODE == 0))
        return 1

    def sample(self, N: int) -> Any:
        return self.buffer.sample(N)

    def sample_and_update(self, N: int) -> None:
        _, indices = self.sample(N)
        self.buffer.update_weight(indices, priorities(N))


class CPPRB:
    """cpprb.ReplayBuffer or PrioritizedReplayBuffer, with next_of and stack_compress."""

    package, kinds = "cpprb", ("uniform", "prioritized")

    def __init__(self, capacity: int, B: int, prioritized: bool, rng: np.random.Generator):
        import cpprb

        fields: dict[str, Any] = {
            "obs": {"shape": (H, W, STACK), "dtype": np.uint8}, "act": {}, "rew": {}, "done": {}
        }  # fmt: skip
        cls = cpprb.PrioritizedReplayBuffer if prioritized else cpprb.ReplayBuffer
        more = {"alpha": 0.5} if prioritized else {}
        self.buffer = cls(capacity, fields, next_of="obs", stack_compress="obs", **more)
        frames = rng.integers(0, 256, (H, W, EPISODE + STACK), dtype=np.uint8)
        self._stacks = np.stack([frames[..., t : t + STACK] for t in range(EPISODE + 1)])
        self._t = 0
        self._beta: dict[str, Any] = {"beta": 0.4} if prioritized else {}
        ones, done = np.ones(EPISODE), np.eye(1, EPISODE, EPISODE - 1)[0]
        while self.buffer.get_stored_size() < capacity - EPISODE:
            self.buffer.add(obs=self._stacks[:-1], act=ones, rew=ones, next_obs=self._stacks[1:], done=done)
            self.buffer.on_episode_end()
        # cpprb stores one frame and three floats per transition.
        self.bytes_each = H * W + 3 * 4

    def append(self) -> int:
        t, is_last = self._t % EPISODE, self._t % EPISODE == EPISODE - 1
        self._t += 1
        self.buffer.add(obs=self._stacks[t], act=1, rew=1, next_obs=self._stacks[t + 1], done=is_last)
        if is_last:
            self.buffer.on_episode_end()
        return 1

    def sample(self, N: int) -> Any:
        return self.buffer.sample(N, **self._beta)

    def sample_and_update(self, N: int) -> None:
        self.buffer.update_priorities(self.sample(N)["indexes"], priorities(N))


class TorchRL:
    """torchrl.data.TensorDictReplayBuffer with LazyTensorStorage, which stores both stacks of every transition."""

    package, kinds = "torchrl", ("uniform", "prioritized")

    def __init__(self, capacity: int, B: int, prioritized: bool, rng: np.random.Generator):
        import torch
        from tensordict import TensorDict
        from torchrl.data import LazyTensorStorage, TensorDictReplayBuffer
        from torchrl.data.replay_buffers.samplers import PrioritizedSampler, RandomSampler

        sampler: Any = PrioritizedSampler(capacity, alpha=0.5, beta=0.4) if prioritized else RandomSampler()
        self.buffer = TensorDictReplayBuffer(storage=LazyTensorStorage(capacity), sampler=sampler, batch_size=32)
        frames = torch.from_numpy(rng.integers(0, 256, (B, STACK, H, W), dtype=np.uint8))
        step = {"obs": frames, "next_obs": frames.flip(0)} | {name: torch.ones(B) for name in ("act", "rew", "done")}
        self._step = TensorDict(step, [B])
        for _ in range(capacity // B):
            self.append()
        self.bytes_each = sum(x.numel() * x.element_size() for x in self._step.values()) / B
        self._torch = torch

    def append(self) -> int:
        self.buffer.extend(self._step.clone())
        return len(self._step)

    def sample(self, N: int) -> Any:
        return self.buffer.sample(N)

    def sample_and_update(self, N: int) -> None:
        batch = self.sample(N)
        batch["td_error"] = self._torch.from_numpy(priorities(N))
        self.buffer.update_tensordict_priority(batch)


PEERS: dict[str, Any] = {"SB3": SB3, "Tianshou": Tianshou, "cpprb": CPPRB, "TorchRL": TorchRL}


def _arrays(batch: Any) -> list[np.ndarray]:
    arrays = []
    for value in batch.values():
        arrays += [value] if isinstance(value, np.ndarray) else _arrays(value)
    return arrays
