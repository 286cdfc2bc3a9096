"""Defines the interface of samplers."""

from collections.abc import Iterator
from typing import Any, Protocol

import numpy as np

from accel_rl.agents.agent import Agent
from accel_rl.data.rollout import Rollout
from accel_rl.data.spec import EnvSpec
from accel_rl.samplers.episodes import Episode, EpisodeTracker


class RolloutSampler(Protocol):
    """A sampler collects rollouts of T steps of B environments. `Sampler`, and `NoSampler` for a rank that does not
    sample, have the interface RolloutSampler."""

    spec: EnvSpec
    T: int
    B: int
    buffers: int
    """The memory has room for `buffers` rollouts. A rollout is valid until `buffers` - 1 further rollouts have been
    collected."""
    episodes: EpisodeTracker
    finished: list[Episode]
    """`finished` lists the episodes that ended in the last rollout."""
    idle: np.ndarray | None
    """The mask `idle` [B] marks environments that an evaluation does not step."""

    dropped: int
    """`dropped` counts the rollout parts that lost workers left invalid, since the start or the last `reseed`."""

    def start(self) -> None:
        """Begin the first episodes, if `collect` has not done so."""

    def collect(self, agent: Agent) -> Rollout:
        """Play T steps in each environment, and return the rollout."""

    def rollouts(self, agent: Agent, fixed: bool = False) -> Iterator[Rollout]:
        """Yield the rollouts that `collect` would return. `fixed` means that the agent's parameters do not change."""

    def check(self) -> None:
        """Detect workers that died, between updates."""

    def state_dict(self) -> dict[str, Any]: ...

    def load_state_dict(self, state: dict[str, Any]) -> None: ...

    def reseed(self, seed: int) -> None:
        """Restart from another seed, as a new sampler would."""

    def close(self) -> None: ...
