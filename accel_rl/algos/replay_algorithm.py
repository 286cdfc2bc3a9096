"""The base class of algorithms with a replay and a target network: all but the equations."""

import copy
from abc import abstractmethod
from collections.abc import Hashable, Iterator
from dataclasses import dataclass, replace
from typing import Any, Literal

import torch
from torch import Tensor

from accel_rl.agents.epsilon_greedy import EpsilonGreedyAgent
from accel_rl.algos.algorithm import Algorithm, AlgorithmConfig, Loss, equal_parts, require
from accel_rl.data.replay_batch import ReplayBatch
from accel_rl.data.rollout import Rollout
from accel_rl.data.spec import EnvSpec
from accel_rl.models.network_state import copy_network, load_network, network_state
from accel_rl.replays.config import ReplayConfig
from accel_rl.replays.replay import Replay
from accel_rl.replays.returns import NStep


@dataclass(frozen=True)
class ReplayAlgorithmConfig(AlgorithmConfig):
    """Settings of the replay and the target network. Subclasses give defaults and sources."""

    replay: ReplayConfig
    batch_size: int
    intensity: float
    learning_rate: float
    n_step: int
    target_interval: int
    target_unit: Literal["env-steps", "updates"]
    epsilon_unit: Literal["env-steps", "updates"]

    def check_sampling(self, T: int, B: int) -> None:
        # a full replay holds a batch; each environment's ring holds a rollout, a stack of four and n more steps
        rows = -(-self.replay.size // B)
        require(self, batch_size=(self.batch_size <= self.replay.size, f"at most --replay.size {self.replay.size}"))
        if rows < T + self.n_step + 8:
            self.replay.too_small((T + self.n_step + 8) * B, f"{B} environments x {T} steps")

    def check_memory(self, spec: EnvSpec, device: str) -> None:
        self.replay.check_memory(spec, device)

    def of_rank(self, ranks: int) -> "ReplayAlgorithmConfig":
        return replace(self, replay=replace(self.replay, size=-(-self.replay.size // ranks)))

    def horizon(self, B: int) -> int:
        """Return the horizon at which a cycle has one update to do; at least 2, so that acting and stepping overlap."""
        return max(2, round(self.batch_size / (self.intensity * B)))


class ReplayAlgorithm(Algorithm):
    """Stores rollouts in a replay and yields batches from it. Its agent acts epsilon-greedily.

    The training intensity sets the number of updates: each env step adds `intensity` transitions to the number due, and
    each batch subtracts `batch_size`. `ingest` updates the target network every `target_interval` env steps (`due`,
    every so many updates). The concurrent schedule does not use `ingest`; it calls `store` and `update_target` itself.
    """

    agent: EpsilonGreedyAgent
    replay: Replay

    def __init__(self, config: ReplayAlgorithmConfig, spec: EnvSpec, *, T: int, B: int, device: str = "cpu"):
        super().__init__(config, spec, T=T, B=B, device=device)
        self.target = copy.deepcopy(self.agent.model).requires_grad_(False)
        self.env_steps = 0  # sampled so far, by all ranks
        self.updates = 0
        self._due = 0.0  # transitions still to be trained on, according to the training intensity
        self.rewards: Tensor | None = None  # of the last batch [N]
        self._target_copies = 0  # with target_unit "updates": number of target intervals that have begun
        self.agent.epsilon = self.epsilon()

    @abstractmethod
    def epsilon(self, ahead: int = 0) -> float | Tensor:
        """Return epsilon `ahead` env steps from now: one number, or one for each environment [B]."""

    @abstractmethod
    def build_returns(self) -> NStep:
        """Build the n-step return that the replay computes for its batches."""

    def resample_noise(self) -> None:
        """Draw new noise for noisy networks. Called before each batch."""

    def begin(self) -> None:
        seed = int(torch.randint(2**62, ()))
        self.replay = self.config.replay.build(self.spec, self.B, self.build_returns(), str(self.device), seed)
        self.replay.join(self.communicator)

    def share(self, other: "ReplayAlgorithm") -> None:
        """Learn from another algorithm's replay; the target network starts as a copy of the model. Replaces `begin`."""
        seed = int(torch.randint(2**62, ()))
        self.replay = self.config.replay.over(other.replay.ring, str(self.device), seed)
        self.replay.join(self.communicator)
        self.update_target()

    @property
    def learning(self) -> bool:
        """Whether the initial random play is over, so that updates can begin."""
        return self.env_steps >= self.config.replay.start and self.communicator.all_reduce_min(len(self.replay)) > 0

    def ingest(self, rollout: Rollout) -> None:
        before, interval = self.env_steps, self.config.target_interval
        self.owe(self.store(rollout))
        if self.config.target_unit == "env-steps" and self.env_steps // interval > before // interval:
            self.update_target()

    def store(self, rollout: Rollout) -> int:
        """Append a rollout to the replay and advance the schedules.

        Returns the number of env steps, of all ranks that share a batch, for which updates become due.
        """
        self.replay.append(rollout)
        self.replay.anneal(self.progress)
        steps = self.communicator.count(rollout.env_steps)
        self.env_steps += steps.of_run
        self.agent.epsilon = self.epsilon()
        return steps.of_batch

    def owe(self, env_steps: int) -> int:
        """Make the updates for `env_steps` env steps due; a negative number cancels updates.

        Returns the number of env steps counted: 0 during the initial random play.
        """
        if not self.learning:
            return 0
        self._due += env_steps * self.config.intensity
        return env_steps

    def behaviour(self) -> EpsilonGreedyAgent:
        """Return an agent with a copy of the target network. It can act while this algorithm learns."""
        agent = copy.copy(self.agent)
        agent.model = copy.deepcopy(self.target)
        return agent

    def due(self, most: int | None = None) -> int:
        n = max(0, int(self._due // self.config.batch_size))
        n = n if most is None else min(n, most)
        if n and self.config.target_unit == "updates":
            begun, since = divmod(self.run_updates, self.config.target_interval)
            if begun + 1 != self._target_copies:
                self.update_target()
                self._target_copies = begun + 1
            n = min(n, self.config.target_interval - since)
        self._due -= n * self.config.batch_size
        self.updates += n
        return n

    def due_now(self, updates: int) -> int:
        """Make `updates` updates due, whatever was sampled; returns how many of them may come before the next `due`."""
        self._due = float(updates * self.config.batch_size)
        return self.due()

    @property
    def run_updates(self) -> int:
        """Number of updates that the parameters have had, by all learners."""
        return self.communicator.updates(self.updates)

    def phase_key(self) -> Hashable:
        """None for batches that come from another device."""
        return self.replay.key if self.replay.is_capturable else None

    def generators(self) -> list[torch.Generator]:
        return [self.replay.generator]

    def parts(self, updates: int) -> list[int]:
        return equal_parts(updates)

    def batches(self, updates: int) -> Iterator[ReplayBatch]:
        for _ in range(updates):
            self.resample_noise()
            batch = self.replay.sample(self.config.batch_size // self.communicator.size)
            self.rewards = batch.r_t
            yield batch

    def after_update(self, batch: ReplayBatch, loss: Loss) -> None:
        if loss.error is not None:
            self.replay.update(batch, loss.error)

    def update_target(self) -> None:
        """Copy the online network to the target network: parameters and buffers."""
        copy_network(self.agent.model, self.target)

    def state_dict(self) -> dict[str, Any]:
        return {
            **super().state_dict(),
            "target": network_state(self.target),
            "env_steps": self.env_steps,
            "updates": self.updates,
            "due": self._due,
            "target_copies": self._target_copies,
            "replay": self.replay.state_dict(),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        super().load_state_dict(state)
        load_network(self.target, state["target"], "the checkpoint's target network")
        self.env_steps, self.updates, self._due = state["env_steps"], state["updates"], state["due"]
        self._target_copies = state["target_copies"]
        self.replay.load_state_dict(state["replay"])
        self.agent.epsilon = self.epsilon()
