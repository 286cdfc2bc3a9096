"""The interface of samplers."""

from collections.abc import Iterator
from typing import Any, Protocol

import numpy as np

from accel_rl.agents.agent import Agent
from accel_rl.data.rollout import Rollout
from accel_rl.data.spec import EnvSpec
from accel_rl.samplers.episodes import Episode, EpisodeTracker


class RolloutSampler(Protocol):
    """Collects rollouts of T steps of B environments. The implementations are `Sampler`, and `NoSampler` for a rank
    that does not sample."""

    spec: EnvSpec
    T: int
    B: int
    buffers: int
    """Number of stored rollouts: a rollout is valid until `buffers` - 1 further rollouts have been collected."""
    episodes: EpisodeTracker
    finished: list[Episode]
    """The episodes that ended in the last collected rollout."""
    idle: np.ndarray | None
    """A mask [B], true for environments that are not stepped, because an evaluation has played enough episodes in
    them."""

    dropped: int
    """How often the death of a worker process made its part of a rollout invalid."""

    def start(self) -> None:
        """Begin the first episodes, unless they have already begun."""

    def collect(self, agent: Agent) -> Rollout:
        """Play T steps in each environment, and return the rollout."""

    def rollouts(self, agent: Agent, fixed: bool = False) -> Iterator[Rollout]:
        """Yield the rollouts that repeated calls of `collect` would return. With `fixed`, the agent's parameters must
        not change."""

    def check(self) -> None:
        """Detect worker processes that have died."""

    def state_dict(self) -> dict[str, Any]: ...

    def load_state_dict(self, state: dict[str, Any]) -> None: ...

    def reseed(self, seed: int) -> None:
        """Make later rollouts the same as those of a new sampler with this seed."""

    def close(self) -> None: ...
