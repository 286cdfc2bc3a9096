"""The global replay (Nair et al. 2015, section 4): steps of all actors in one process, for all learners."""

from typing import Any

import torch

from accel_rl.algos.replay_algorithm import ReplayAlgorithm, ReplayAlgorithmConfig
from accel_rl.config.registry import find_algorithm
from accel_rl.data.replay_batch import ReplayBatch
from accel_rl.envs.make import make_spec
from accel_rl.gorila.rollout_message import from_message
from accel_rl.gorila.setup import Setup
from accel_rl.replays.replay import Replay
from accel_rl.runners.seeds import Stream, derived_seed
from accel_rl.system.process import tune_torch


class GlobalReplay:
    """What runs in the process of the global replay. Every member that samples has an equal part of its memory.

    Batches are drawn uniformly from the transitions of all members.
    """

    def __init__(self, setup: Setup, sources: int, life: int):
        """sources: number of members that sample. life: number of this process among those of the replay."""
        self.config = setup.enter()
        tune_torch(1)
        assert isinstance(self.config.algo, ReplayAlgorithmConfig)
        self._replay_config = self.config.algo.of_rank(sources).replay
        self._seed = derived_seed(self.config.seed, Stream.RANK, 1_000_000 + life)
        self._generator = torch.Generator().manual_seed(self._seed)
        cls = find_algorithm(self.config.algorithm)
        spec = make_spec(self.config.env, training=True)
        algo = cls(self.config.algo, spec, T=self.config.T, B=self.config.sampler.envs)
        assert isinstance(algo, ReplayAlgorithm)
        self._spec, self._returns = spec, algo.build_returns()
        self._parts: dict[int, tuple[int, Replay]] = {}  # of each member: (number of its process, its steps)

    def append(self, member: int, life: int, rollout: dict[str, Any]) -> int:
        """Append a rollout of a member's process number `life`; returns the number of transitions.

        The steps of a new process do not follow those of the one before, which are dropped.
        """
        if member not in self._parts or self._parts[member][0] != life:
            seed = self._seed + 1 + len(self._parts)
            B = self.config.sampler.envs
            self._parts[member] = life, self._replay_config.build(self._spec, B, self._returns, "cpu", seed)
        self._parts[member][1].append(from_message(rollout))
        return self.size()

    def size(self) -> int:
        """Return the number of transitions."""
        return sum(len(replay) for _, replay in self._parts.values())

    def sample(self, N: int) -> tuple[int, dict[str, Any]]:
        """Return the number of transitions, and a batch of N of them; an empty one while there are none."""
        replays = [replay for _, replay in self._parts.values() if len(replay)]
        if not replays:
            return 0, {}
        weights = torch.tensor([float(len(replay)) for replay in replays])
        drawn = torch.multinomial(weights, N, replacement=True, generator=self._generator)
        numbers = torch.bincount(drawn, minlength=len(replays)).tolist()
        batches = [replay.sample(n) for replay, n in zip(replays, numbers, strict=True) if n]
        names = ReplayBatch.__slots__
        return self.size(), {name: torch.cat([getattr(b, name) for b in batches]).numpy() for name in names}
