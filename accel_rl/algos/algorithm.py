"""The interface between algorithms and runners: the methods that a new algorithm overrides."""

from abc import ABC, abstractmethod
from collections.abc import Hashable, Iterator
from dataclasses import dataclass, field, fields, replace
from typing import Any, ClassVar, Self

import torch
from torch import Tensor

from accel_rl.agents.base import Agent
from accel_rl.data.rollout import Rollout
from accel_rl.data.spec import EnvSpec
from accel_rl.distributed.communicator import SINGLE_PROCESS, Communicator
from accel_rl.models.network_state import check_parameters
from accel_rl.optim.optimizer import Optimizer, Rate
from accel_rl.system.devices import is_gpu
from accel_rl.system.errors import ConfigError

UPDATES_OF_A_PART = 8
"""Number of updates that one CUDA graph makes, where a phase can be divided."""


def equal_parts(updates: int) -> list[int]:
    """Divide updates into parts of UPDATES_OF_A_PART, and the rest."""
    whole, rest = divmod(updates, UPDATES_OF_A_PART)
    return [UPDATES_OF_A_PART] * whole + [rest] * bool(rest)


@dataclass(frozen=True)
class AlgorithmConfig:
    """Settings of an algorithm. Each field's docstring gives its unit and the source of its default."""

    @property
    def optimizer_name(self) -> str:
        """Name of the optimizer."""
        return "adam"

    def check(self) -> None:
        """Raise ConfigError, one line, for an impossible value."""

    def check_sampling(self, T: int, B: int) -> None:
        """Raise ConfigError for values that are incompatible with a horizon T and B environments."""

    def check_memory(self, spec: EnvSpec, device: str) -> None:
        """Raise ConfigError, with the missing bytes, if the learner's replay does not fit on its device."""

    def for_env(self, is_atari: bool) -> Self:
        """Return the settings with the defaults that depend on the environment filled in."""
        if getattr(self, "reward_clip", 0.0) is None:
            return replace(self, reward_clip=1.0 if is_atari else 0.0)  # type: ignore[call-arg]
        return self

    def of_rank(self, ranks: int) -> "AlgorithmConfig":
        """Return the settings of one of `ranks` ranks: the replay is divided among them, all else stays."""
        return self

    def horizon(self, B: int) -> int:
        """Default number of agent steps between optimisations, for B environments."""
        return 5


@dataclass(slots=True)
class Loss:
    """The loss of an update and its metrics: numbers, or scalars [] that stay tensors until a row is written.

    error [N]: error of each sample of a replay batch, from which its new priority is computed.
    samples []: number of samples that `total` is the mean of. It can differ between ranks that share a batch.
    """

    total: Tensor
    metrics: dict[str, Any] = field(default_factory=dict)
    error: Tensor | None = None
    samples: Tensor | float = 1.0


class Algorithm(ABC):
    """Turns rollouts into batches and batches into losses, independently of samplers, ranks and runs.

    A subclass sets `Config` (a dataclass) and `sampling` (the environments and horizon of its paper; horizon None: use
    `Config.horizon`), and implements the abstract methods.
    """

    Config: ClassVar[type[AlgorithmConfig]] = AlgorithmConfig
    on_policy: ClassVar[bool] = False
    """Whether the gradient assumes that the current parameters sampled the rollout and recorded its values. If so, no
    update of another rank may come between a rollout and its gradient."""
    sampling: ClassVar[dict[str, Any]] = {"envs": 16, "horizon": None}
    capturable: ClassVar[bool] = False
    """Whether a GPU may replay updates as CUDA graphs, without calling Python (see `phase_key`). It is not inherited: a
    subclass that sets it declares that its methods, too, decide nothing on the host by themselves."""

    def __init__(self, config: AlgorithmConfig, spec: EnvSpec, *, T: int, B: int, device: str = "cpu"):
        self.config: Any = config.for_env(spec.is_atari)
        self.spec, self.T, self.B, self.device = spec, T, B, torch.device(device)
        self.progress = 0.0  # fraction of the run's env steps done; schedules follow it
        # T and B are this rank's; batch sizes and env steps in the settings are totals over the ranks that share them
        self.communicator: Communicator = SINGLE_PROCESS
        self.agent = self.build_agent(spec)
        check_parameters(self.agent.model)
        self.agent.model.to(self.device).eval()  # train mode is for updates alone, see `Learner`
        self._scheduled: dict[str, Tensor] = {}

    @abstractmethod
    def build_agent(self, spec: EnvSpec) -> Agent:
        """Build the agent that samples. The parameters of its model are trained."""

    @abstractmethod
    def build_optimizer(self, size: int) -> Optimizer:
        """Build the optimizer for `size` parameters."""

    @property
    @abstractmethod
    def learning_rate(self) -> float:
        """Learning rate at this point of the run."""

    max_grad_norm: float | None = None

    def schedules(self) -> dict[str, float]:
        """Return all numbers of the loss and the update that change over the run, by name."""
        return {"learning_rate": self.learning_rate}

    @property
    def scheduled(self) -> dict[str, Rate]:
        """The current values of `schedules`: numbers, or scalars [] on the GPU, where a captured update reads them."""
        if not is_gpu(self.device):
            return dict(self.schedules())
        if not self._scheduled:
            self.refresh()
        return dict(self._scheduled)

    def refresh(self) -> None:
        """Show a GPU the current values of `schedules`. Called before every optimisation phase; does not wait."""
        for name, value in self.schedules().items() if is_gpu(self.device) else ():
            if name not in self._scheduled:
                self._scheduled[name] = torch.full((), value, device=self.device)
            else:
                self._scheduled[name].fill_(value)

    def begin(self) -> None:  # noqa: B027  optional
        """Allocate memory such as a replay. Called before the first rollout, or before a state is loaded."""

    @abstractmethod
    def ingest(self, rollout: Rollout) -> None:
        """Process a sampled rollout: compute advantages, or append it to a replay."""

    def due(self, most: int | None = None) -> int:
        """Return the number of updates of the next optimisation phase, at most `most`, which then count as made."""
        return 1

    def prepare(self) -> None:  # noqa: B027  optional
        """Begin a phase, after `due`, with what all its updates share, for example advantages."""

    @abstractmethod
    def batches(self, updates: int) -> Iterator[Any]:
        """Yield the next `updates` batches of the phase: epochs x minibatches, or samples of a replay."""

    def phase(self) -> Iterator[Any]:
        """Yield the batches of a whole phase."""
        updates = self.due()
        if updates:
            self.prepare()
            yield from self.batches(updates)

    def parts(self, updates: int) -> list[int]:
        """Divide a phase of so many updates into parts. Parts of equal numbers run the same operations on the same
        memory, but for `prepare` before the first: a GPU then keeps a short graph for a long phase."""
        return [updates]

    def phase_key(self) -> Hashable:
        """What a phase's operations depend on besides the contents of tensors and the number of updates.

        Phases of equal keys run the same operations on the same memory, so that a GPU can replay them. None: the host
        decides during the phase, which therefore runs from Python.
        """
        return None

    def generators(self) -> list[torch.Generator]:
        """Return the generators that batches are drawn from, besides torch's default one."""
        return []

    @abstractmethod
    def loss(self, batch: Any) -> Loss:
        """Compute the loss of one batch. No side effects."""

    def usual_loss(self) -> float:
        """Return what the surprise of one reward adds to the loss of a batch; 0 if it has no bound.

        A learner on a parameter server does not discard a gradient for so little (Nair et al. 2015, section 4.2).
        """
        return 0.0

    def after_update(self, batch: Any, loss: Loss) -> None:  # noqa: B027  optional
        """Called after each update, for example to set priorities of a replay. `ingest` updates target networks."""

    def state_dict(self) -> dict[str, Any]:
        """Return the state of a resumed run, except parameters, optimizer state and `progress`."""
        return {"agent": self.agent.state_dict()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.agent.load_state_dict(state["agent"])


def require(config: Any, **tests: tuple[bool, str]) -> None:
    """Raise ConfigError for the first field that fails its test: `require(c, gamma=(c.gamma <= 1, "at most 1"))`."""
    known = {f.name for f in fields(config)}
    for name, (holds, allowed) in tests.items():
        assert name in known
        if not holds:
            flag = name.replace("_", "-")
            raise ConfigError(f"--algo.{flag} {getattr(config, name)}: must be {allowed}")
