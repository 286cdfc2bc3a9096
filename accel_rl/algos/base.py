"""What a runner asks of an algorithm, and what a researcher overrides."""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, field, fields
from typing import Any, ClassVar

import torch
from torch import Tensor

from accel_rl.agents.base import Agent
from accel_rl.data.rollout import Rollout
from accel_rl.data.spec import EnvSpec
from accel_rl.distributed.communicator import SINGLE_PROCESS, Communicator
from accel_rl.optim.optimizer import Optimizer
from accel_rl.system.errors import ConfigError


@dataclass(frozen=True)
class AlgorithmConfig:
    """Settings of an algorithm. A field's default, unit and source stand beside it."""

    @property
    def optimizer_name(self) -> str:
        """Of the update optimizer, where it can be chosen."""
        return "adam"

    def check(self) -> None:
        """ConfigError, one line, for an impossible value."""

    def check_sampling(self, T: int, B: int) -> None:
        """ConfigError for values that do not go with a horizon T and B environments."""

    def check_memory(self, spec: EnvSpec, device: str) -> None:
        """ConfigError where the learner's memory (a replay) does not fit on its device, by how much."""

    def of_rank(self, ranks: int) -> "AlgorithmConfig":
        """The settings of one of so many ranks: what is remembered is divided among them, nothing else."""
        return self

    def horizon(self, B: int) -> int:
        """Steps between optimisations where none are asked for."""
        return 5


@dataclass(slots=True)
class Loss:
    """What an update minimises, and what to report: scalars [] that stay tensors until a row is written.

    error [N]: how wrong each sample of a replay's batch was found to be; its new priority.
    samples []: of how many `total` is the mean, where ranks that share a batch may have other numbers.
    """

    total: Tensor
    metrics: dict[str, Tensor] = field(default_factory=dict)
    error: Tensor | None = None
    samples: Tensor | float = 1.0


class Algorithm(ABC):
    """Turns rollouts into batches and batches into losses. Knows nothing of samplers, ranks or runs.

    A subclass sets `Config` (a dataclass) and `sampling` (its paper's environments and horizon; None: as
    `Config.horizon` says), and overrides what differs.
    """

    Config: ClassVar[type[AlgorithmConfig]] = AlgorithmConfig
    on_policy: ClassVar[bool] = False
    """Whether the gradient is of the policy that has just played, with the values that it recorded: other ranks'
    updates must then not come between the rollout and its gradient."""
    sampling: ClassVar[dict[str, Any]] = {"envs": 16, "horizon": None}

    def __init__(self, config: AlgorithmConfig, spec: EnvSpec, *, T: int, B: int, device: str = "cpu"):
        self.config: Any = config
        self.spec, self.T, self.B, self.device = spec, T, B, torch.device(device)
        self.progress = 0.0  # share of the run's env steps done; schedules follow it
        self.communicator: Communicator = (
            SINGLE_PROCESS  # B is this rank's; batches and steps that settings name are of all who share them
        )
        self.agent = self.build_agent(spec)
        self.agent.model.to(self.device)

    @abstractmethod
    def build_agent(self, spec: EnvSpec) -> Agent:
        """The agent that samples; its model's parameters are what is learned."""

    @abstractmethod
    def build_optimizer(self, size: int) -> Optimizer:
        """The optimizer for `size` parameters."""

    @property
    @abstractmethod
    def learning_rate(self) -> float:
        """At this point of the run."""

    max_grad_norm: float | None = None

    def begin(self) -> None:  # noqa: B027  nothing to do, unless an algorithm says so
        """Before the first rollout, or before a state is loaded: take the memory that learning needs."""

    @abstractmethod
    def ingest(self, rollout: Rollout) -> None:
        """Take in what was sampled: compute advantages, or append to a replay."""

    @abstractmethod
    def batches(self) -> Iterator[Any]:
        """The batches of one optimisation phase: epochs x minibatches, or samples of a replay."""

    @abstractmethod
    def loss(self, batch: Any) -> Loss:
        """The loss of one batch. Pure: no side effects."""

    def after_update(self, batch: Any, loss: Loss) -> None:  # noqa: B027  nothing to do, unless an algorithm says so
        """After each update: priorities of a replay (target copies follow env steps: `ingest`)."""

    def state_dict(self) -> dict[str, Any]:
        """What a resumed run needs beside parameters, optimizer state and `progress`."""
        return {"agent": self.agent.state_dict()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.agent.load_state_dict(state["agent"])


def require(config: Any, **tests: tuple[bool, str]) -> None:
    """ConfigError naming the first field whose test failed: `require(c, gamma=(c.gamma <= 1, "at most 1"))`."""
    known = {f.name for f in fields(config)}
    for name, (holds, allowed) in tests.items():
        assert name in known
        if not holds:
            flag = name.replace("_", "-")
            raise ConfigError(f"--algo.{flag} {getattr(config, name)}: must be {allowed}")
