"""Base class of algorithms with a replay and a target network; subclasses define the losses."""

import copy
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor, nn
from typing_extensions import TypeVar

from accel_rl.agents.agent import Agent
from accel_rl.algos.algorithm import Algorithm, AlgorithmConfig, Loss, require
from accel_rl.data.rollout import Rollout
from accel_rl.data.spec import EnvSpec
from accel_rl.models.network_state import copy_network, load_network, network_state
from accel_rl.replays.config import ReplayConfig
from accel_rl.replays.replay import Replay
from accel_rl.replays.ring import FrameRing, NStep, ReplayBatch
from accel_rl.text.bounds import Positive, PositiveCount


class TargetNetwork:
    """A copy of the online network's parameters and buffers, made every `interval` env steps or updates."""

    def __init__(self, online: nn.Module, interval: int, unit: Literal["env-steps", "updates"] = "env-steps"):
        self.online = online
        self.interval = interval
        self.unit = unit
        self.model: Any = copy.deepcopy(online).requires_grad_(False)
        self._intervals = 0  # With the unit "updates", the number of intervals so far, each begun with a copy
        self.copies = 0
        """Number of copies so far."""
        self._pending = 0  # Number of copies to make between the updates of the next phase

    def update(self) -> None:
        copy_network(self.online, self.model)
        self.copies += 1

    def after_env_steps(self, before: int, now: int) -> None:
        """Copy if an interval ends between `before` and `now` env steps. If several intervals end, the remaining copies
        are made between the updates that these env steps make due (`between_updates`)."""
        if self.unit == "env-steps" and (ended := now // self.interval - before // self.interval):
            self.update()
            self._pending = ended - 1

    def between_updates(self, due: int) -> Iterator[None]:
        """Yield before each of the `due` updates of a phase, and make the pending copies at equal distances."""
        pending, self._pending = self._pending, 0
        copied = 0
        for update in range(due):
            while copied < min(pending, update * (pending + 1) // due):
                self.update()
                copied += 1
            yield
        for _ in range(pending - copied):
            self.update()

    def before_updates(self, updates: int, due: int) -> int:
        """Copy if a new interval begins after `updates` updates. Return how many of the `due` updates belong to the
        current interval."""
        if self.unit == "env-steps" or not due:
            return due
        begun, since = divmod(updates, self.interval)
        if begun + 1 != self._intervals:
            self.update()
            self._intervals = begun + 1
        return min(due, self.interval - since)

    def state_dict(self) -> dict[str, Any]:
        return {"network": network_state(self.model), "intervals": self._intervals, "copies": self.copies}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        load_network(self.model, state["network"], "the checkpoint's target network")
        self._intervals, self.copies = state["intervals"], state["copies"]


class UpdateBudget:
    """Counts the updates that are due. Each env step makes `intensity` transitions due for training, and each update
    trains on `batch_size` transitions. Training intensity is the average number of times that each transition is used
    (Stooke & Abbeel 2018, section 5)."""

    def __init__(self, intensity: float, batch_size: int):
        self.intensity = intensity
        self.batch_size = batch_size
        self.transitions = 0.0
        """Number of transitions that are due for training."""
        self.updates = 0
        """Number of updates made."""

    def add(self, env_steps: int) -> None:
        """Make the transitions of `env_steps` env steps due for training. A negative number reverses an earlier
        call."""
        self.transitions += env_steps * self.intensity

    def set(self, updates: int) -> None:
        """Set the number of due updates, independently of the number of sampled env steps."""
        self.transitions = float(updates * self.batch_size)

    def due(self) -> int:
        return max(0, int(self.transitions // self.batch_size))

    def spend(self) -> None:
        self.transitions -= self.batch_size
        self.updates += 1

    def state_dict(self) -> dict[str, Any]:
        return {"transitions": self.transitions, "updates": self.updates}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.transitions = state["transitions"]
        self.updates = state["updates"]


@dataclass(frozen=True)
class ReplayAlgorithmConfig(AlgorithmConfig):
    """Settings of every algorithm with a replay and a target network. The defaults are those of CleanRL's dqn_atari.py,
    except for the settings of the replay and of the target network."""

    replay: ReplayConfig = field(default_factory=ReplayConfig)
    batch_size: PositiveCount = 32
    """Number of transitions in one update, summed over all ranks that share the update (Stooke & Abbeel, section 5.4:
    32 to 2,048)."""
    intensity: Positive = 8.0
    """Training intensity: the average number of times that each transition is used (section 5: 8). The number of
    updates per cycle is intensity x env steps sampled in the cycle / batch size."""
    learning_rate: Positive = 1e-4
    """Learning rate."""
    n_step: PositiveCount = 1
    """Number of rewards in the n-step return before the bootstrap value (Sutton 1988)."""
    target_interval: PositiveCount = 8_000
    """Env steps between updates of the target network (Hessel et al. 2018: 32,000 frames)."""
    target_unit: Literal["env-steps", "updates"] = "env-steps"
    """Unit of target_interval. With `updates` the target network is copied once per target_interval updates (Parr 2017:
    10,000; Nair et al. 2015, section 5.1: 60,000 updates by all learners)."""
    units: ClassVar[tuple[str, ...]] = ("target_unit",)
    """Names of the settings that choose between env steps and updates."""

    @property
    def transitions_per_update(self) -> int:
        return self.batch_size

    def inactive(self) -> dict[str, str]:
        return super().inactive() | {f"replay.{name}": needs for name, needs in self.replay.inactive().items()}

    def check(self) -> None:
        super().check()
        self.replay.check()

    def check_sampling(self, T: int, B: int) -> None:
        # A full replay must have room for a batch.
        require(self, batch_size=(self.batch_size <= self.replay.size, f"at most --replay.size {self.replay.size}"))
        if -(-self.replay.size // B) < self.least_rows(T):
            self.replay.too_small(self.least_rows(T) * B, f"{B} environments x {T} steps")

    def least_rows(self, T: int) -> int:
        """The least number of steps of each environment in the replay: a rollout, a stack of four frames and n more
        steps."""
        return T + self.n_step + 8

    def check_spec(self, spec: EnvSpec, device: str) -> None:
        super().check_spec(spec, device)
        self.replay.check_memory(spec, device)

    def of_rank(self, ranks: int) -> "ReplayAlgorithmConfig":
        return replace(self, replay=replace(self.replay, size=-(-self.replay.size // ranks)))

    def horizon(self, B: int) -> int:
        """The horizon at which one update is due per cycle. The horizon is at least 2, so that acting and stepping
        overlap."""
        return max(2, round(self.transitions_per_update / (self.intensity * B)))


C = TypeVar("C", bound=ReplayAlgorithmConfig, default=ReplayAlgorithmConfig, covariant=True)


class ReplayAlgorithm(Algorithm[C]):
    """Stores rollouts in a replay, and yields batches from the replay. A subclass defines its agent and its loss. The
    agent acts at random while its `epsilon` is 1, during the initial random play.

    `budget` counts the updates that are due. `target_network` decides when the target network is copied. The concurrent
    schedule calls `store` and `owe` instead of `ingest`, and copies the target network itself.
    """

    Config: ClassVar[type[ReplayAlgorithmConfig]] = ReplayAlgorithmConfig
    agent: Any
    replay: Replay

    def __init__(self, config: C, spec: EnvSpec, *, T: int, B: int, device: str = "cpu"):
        super().__init__(config, spec, T=T, B=B, device=device)
        self.target_network = TargetNetwork(self.agent.model, config.target_interval, config.target_unit)
        self.budget = UpdateBudget(config.intensity, config.transitions_per_update)

    def build_returns(self) -> NStep:
        """The n-step return that the replay computes for its batches."""
        return NStep(self.config.n_step, self.config.gamma, self.config.reward_clip or 0.0)

    def build_ring(self, spec: EnvSpec, B: int, size: int, returns: NStep, device: str) -> Any:
        """The ring buffer of the replay, for `size` transitions."""
        return FrameRing(spec, B, size, returns, device)

    def schedules(self, progress: float, env_steps: int) -> dict[str, float]:
        """The learning rate, and epsilon, which is 1 during the initial random play and 0 afterwards."""
        return {**super().schedules(progress, env_steps), "epsilon": float(env_steps < self.config.replay.start)}

    def resample_noise(self) -> None:
        """Draw new noise for noisy networks, before each batch is drawn."""

    @property
    def target(self) -> Any:
        return self.target_network.model

    def begin(self) -> None:
        seed = int(torch.randint(2**62, ()))
        self.replay = self.config.replay.build(
            self.spec, self.B, self.build_returns(), str(self.device), seed, self.build_ring
        )
        self.replay.join(self.communicator)

    def share(self, other: "ReplayAlgorithm") -> None:
        """Learn from another algorithm's replay. The target network starts as a copy of the model. For a shared replay,
        the runner calls `share` instead of `begin`."""
        seed = int(torch.randint(2**62, ()))
        self.replay = self.config.replay.over(other.replay.ring, str(self.device), seed)
        self.replay.join(self.communicator)
        self.target_network.update()

    @property
    def learning(self) -> bool:
        """Whether the initial random play is over, so that updates can begin."""
        enough = self.now.env_steps >= self.config.replay.start
        return enough and self.communicator.all_reduce_min(len(self.replay)) > 0

    @property
    def run_updates(self) -> int:
        """Number of parameter updates so far, summed over all learners."""
        return self.communicator.updates(self.budget.updates)

    def ingest(self, rollout: Rollout) -> None:
        self.store(rollout)
        self.owe(self.now.counted.of_batch)
        self.target_network.after_env_steps(self.now.env_steps - self.now.counted.of_run, self.now.env_steps)

    def store(self, rollout: Rollout) -> None:
        """Append a rollout, and advance the schedule of importance weights."""
        self.replay.append(rollout)
        self.replay.anneal(self.now.progress)

    def owe(self, env_steps: int) -> int:
        """Add the updates that `env_steps` env steps make due, or subtract them if `env_steps` is negative. Return the
        counted env steps, which are 0 during the initial random play."""
        if not self.learning:
            return 0
        self.budget.add(env_steps)
        return env_steps

    def behaviour(self) -> Agent:
        """An agent with a copy of the target network, which can act while the algorithm updates its own agent."""
        agent = copy.copy(self.agent)
        agent.model = copy.deepcopy(self.target)
        return agent

    def phase(self) -> Iterator[None]:
        """Yield before each update, and count the update. An optimisation phase ends when the target network is
        copied."""
        due = self.target_network.before_updates(self.run_updates, self.budget.due())
        for _ in self.target_network.between_updates(due):
            self.budget.spend()
            yield

    def draw(self) -> ReplayBatch:
        self.resample_noise()
        batch = self.replay.sample(self.config.batch_size // self.communicator.size)
        if isinstance(batch, ReplayBatch):  # A SequenceBatch's rewards are also inputs.
            batch.r_t = self.reward_norm(batch.r_t)
        return batch

    def batches(self) -> Iterator[ReplayBatch]:
        for _ in self.phase():
            yield self.draw()

    def after_update(self, batch: ReplayBatch, loss: Loss) -> None:
        if loss.error is not None:
            self.replay.update(batch, loss.error)

    def combine_losses(self, batch: ReplayBatch, losses: Tensor, error: Tensor, q: Tensor) -> Loss:
        """Mean of losses [N], weighted by the batch's importance weights. The errors [N] determine the new priorities,
        and q [N, A] is reported as a metric."""
        total = (batch.weight * losses).mean()
        metrics = {"loss": total, "td_error": error.abs().mean(), "q": q.max(-1).values.mean()}
        return Loss(total, {name: x.detach() for name, x in metrics.items()}, error.detach())

    def columns(self) -> dict[str, float]:
        """Counts and numbers for a row of metrics, besides the current values of `schedules`."""
        beta = getattr(self.replay, "beta", None)
        return {"target_copies": self.target_network.copies, **({} if beta is None else {"beta": beta})}

    def state_dict(self) -> dict[str, Any]:
        return {
            **super().state_dict(),
            "target": self.target_network.state_dict(),
            "budget": self.budget.state_dict(),
            "replay": self.replay.state_dict(),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        super().load_state_dict(state)
        self.target_network.load_state_dict(state["target"])
        self.budget.load_state_dict(state["budget"])
        self.replay.load_state_dict(state["replay"])
