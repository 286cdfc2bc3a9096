"""The interface of samplers."""

from collections.abc import Iterator
from typing import Any, Protocol

import numpy as np

from accel_rl.agents.agent import Agent
from accel_rl.data.rollout import Rollout
from accel_rl.data.spec import EnvSpec
from accel_rl.samplers.episodes import Episode, EpisodeTracker


class RolloutSampler(Protocol):
    """A sampler collects T steps of B environments. The classes are `Sampler`, and `NoSampler` of a rank that does not
    sample."""

    spec: EnvSpec
    T: int
    B: int
    buffers: int
    """Number of rollouts in memory. A rollout is valid until `buffers` - 1 further rollouts have been collected."""
    episodes: EpisodeTracker
    finished: list[Episode]
    """The episodes that ended in the last rollout."""
    idle: np.ndarray | None
    """[B] bool: environments that are not stepped, in an evaluation."""

    dropped: int
    """Number of times that a lost worker's part of a rollout was invalid, since the start or the last `reseed`."""

    def start(self) -> None:
        """Begin the first episodes. `collect` calls this if it was not called before."""

    def collect(self, agent: Agent) -> Rollout:
        """Play T steps in each environment."""

    def rollouts(self, agent: Agent, fixed: bool = False) -> Iterator[Rollout]:
        """Yield the rollouts that `collect` would return. `fixed` means that the agent's parameters do not change."""

    def check(self) -> None:
        """Detect workers that died, between updates."""

    def state_dict(self) -> dict[str, Any]: ...

    def load_state_dict(self, state: dict[str, Any]) -> None: ...

    def reseed(self, seed: int) -> None:
        """Restart from another seed, as a new sampler would."""

    def close(self) -> None: ...
