"""The interface between algorithms and runners: the methods that a new algorithm overrides."""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any, ClassVar, Generic, Literal, Self

import torch
from torch import Tensor, nn
from typing_extensions import TypeVar

from accel_rl.agents.agent import Agent
from accel_rl.algos.reward_norm import RewardNorm, clipped
from accel_rl.data.rollout import Rollout
from accel_rl.data.spec import EnvSpec
from accel_rl.distributed.communicator import SINGLE_PROCESS, Communicator, CountedSteps
from accel_rl.models.network_state import check_parameters
from accel_rl.optim.optimizer import Optimizer, Rate
from accel_rl.optim.optimizers import AnyOptimizer, check_optimizer, make_optimizer
from accel_rl.text.bounds import BelowOne, NonNegative, Positive, Share
from accel_rl.text.errors import ConfigError


class Schedules:
    """The current values of schedules are attributes: `now.learning_rate`, `now.clip` and every other name of
    `Algorithm.schedules`.

    Three attributes of an algorithm's schedules describe the run. `progress` is the fraction of the run that was
    completed when the cycle began. `env_steps` counts the env steps of all ranks, including the newest rollout.
    `counted` is the number of env steps of the newest rollout.
    """

    def __init__(self) -> None:
        self.progress = 0.0
        self.env_steps = 0
        self.counted = CountedSteps(0, 0)

    def __getattr__(self, name: str) -> Rate:
        names = ", ".join(vars(self))
        raise AttributeError(f"no schedule has the name {name!r}: schedules() returns {names}")

    def count(self, steps: CountedSteps) -> None:
        self.env_steps += steps.of_run
        self.counted = steps

    def set(self, values: Mapping[str, float]) -> None:
        for name, value in values.items():
            setattr(self, name, value)


@dataclass(frozen=True)
class AlgorithmConfig:
    """Settings that every algorithm has. Each field's docstring contains the unit and the source of the default. A type
    such as `Share` defines the smallest and the largest allowed value of a field."""

    learning_rate: Positive = 2.5e-4
    """Learning rate."""
    learning_rate_schedule: Literal["constant", "linear"] = "constant"
    """With `linear` the learning rate decays to zero over the run."""
    gamma: Share = 0.99
    """Discount per agent step (Mnih et al. 2015)."""
    reward_clip: NonNegative | None = None
    """Absolute value to which rewards are clipped for learning. Scores are never clipped. With 0, rewards are not
    clipped. By default, rewards are clipped to 1 in Atari games (Mnih et al. 2015), and not clipped in other
    environments."""
    normalize_rewards: bool = False
    """Divide rewards, after the clipping, by the running standard deviation of the discounted return, and clip the
    results to +- 10 (OpenAI baselines' VecNormalize). Episode scores are not changed. With a replay, a batch's n-step
    returns are divided by the current standard deviation, as in Stable-Baselines3."""
    clip_grad_norm: NonNegative = 0.0
    """L2 norm to which the gradient of all parameters is clipped. With 0, the gradient is not clipped."""
    optimizer: AnyOptimizer = "adam"
    """Optimizer of the parameters. `adam-epsilon-hat` adds epsilon to the root of the second moment without bias
    correction (Stooke & Abbeel, appendix A). `rmsprop` adds epsilon inside the root, and names with -torch add epsilon
    outside the root. The `centered` forms of RMSProp follow Mnih et al. 2015. `adagrad` follows Nair et al. 2015,
    section 4.2 (Duchi et al. 2011). `torch:AdamW(weight_decay=0.01)` is a class of torch.optim with its options."""
    rmsprop_alpha: BelowOne = 0.99
    """Decay factor of RMSProp's running mean of squared gradients (Mnih et al. 2016: 0.99)."""
    optimizer_eps: Positive = 1e-8
    """Epsilon of the optimizer (Kingma & Ba 2015: 1e-8)."""

    @property
    def max_grad_norm(self) -> float | None:
        """L2 norm to which gradients are clipped, or None for no clipping."""
        return self.clip_grad_norm or None

    def usual_loss(self) -> float:
        """The most that one sample with a reward that the network did not predict can add to a batch's mean loss, or 0
        if the loss has no upper bound. A learner on a parameter server discards gradients of unusually large losses
        (Nair et al. 2015, section 4.2), except losses that one such sample can cause."""
        return 0.0

    def check(self) -> None:
        """Raise ConfigError, with a message of one line, for an impossible value."""
        check_optimizer(self.optimizer)

    def inactive(self) -> dict[str, str]:
        """The settings without effect, each with what it needs. A run warns about those that the user has changed."""
        return {} if "rmsprop" in self.optimizer else {"rmsprop_alpha": "an RMSProp optimizer (--optimizer rmsprop)"}

    def check_sampling(self, T: int, B: int) -> None:
        """Raise ConfigError for values that are incompatible with a horizon T and B environments."""

    def check_spec(self, spec: EnvSpec, device: str) -> None:
        """Raise ConfigError if the algorithm cannot learn in the environment, or if the learner's replay does not fit
        in its device's memory."""
        if spec.action_shape:
            raise ConfigError(f"{spec.name}: actions of several numbers need a policy gradient: a2c, ppo or impala")

    def for_env(self, is_atari: bool) -> Self:
        """Fill in the defaults that depend on the environment."""
        return replace(self, reward_clip=1.0 if is_atari else 0.0) if self.reward_clip is None else self

    def for_run(self, env_steps: int) -> Self:
        """Fill in the defaults that depend on the length of the run."""
        return self

    def of_rank(self, ranks: int) -> "AlgorithmConfig":
        """The settings of one rank. The replay is divided among all `ranks` ranks."""
        return self

    def horizon(self, B: int) -> int:
        """Default number of agent steps between optimisation phases, for B environments."""
        return 5


@dataclass(slots=True)
class Loss:
    """The loss of an update and metrics of the update. A metric is a number or a scalar tensor [], which becomes a
    number when a row of metrics is written.

    `error` [N] is the error of each sample of a replay batch, from which its new priority is computed. The loss `total`
    is a mean over `samples` [] samples. The number of samples can differ between ranks that share a batch."""

    total: Tensor
    metrics: dict[str, Any] = field(default_factory=dict)
    error: Tensor | None = None
    samples: Tensor | float = 1.0


C = TypeVar("C", bound=AlgorithmConfig, default=AlgorithmConfig, covariant=True)


class Algorithm(ABC, Generic[C]):
    """Converts rollouts into batches and batches into losses, independently of samplers, ranks, devices and runs.

    A subclass sets `Config`, a dataclass, and `sampling`, the number of environments and the horizon of its paper. With
    horizon None, `Config.horizon` computes the horizon. A subclass implements the abstract methods. The algorithm's
    attribute `now` contains the current values of its schedules. A loss reads only its batch, the networks, `now` and
    `config`, because a GPU captures the loss once and then replays it (`accel_rl.speed`).
    """

    Config: ClassVar[type[AlgorithmConfig]] = AlgorithmConfig
    on_policy: ClassVar[bool] = False
    """Whether the gradient assumes that the current parameters sampled the rollout and recorded its values. With an
    on-policy algorithm, no other rank may update the parameters between a rollout and its gradient."""
    sampling: ClassVar[dict[str, Any]] = {"envs": 16, "horizon": None}

    def __init__(self, config: C, spec: EnvSpec, *, T: int, B: int, device: str = "cpu"):
        self.config = config.for_env(spec.is_atari)
        self.spec = spec
        self.T = T
        self.B = B
        self.device = torch.device(device)
        self.now = Schedules()
        # T and B are the numbers of rollout steps and environments of one rank.
        # In the settings, batch sizes and env steps are totals over ranks.
        self.communicator: Communicator = SINGLE_PROCESS
        norm = RewardNorm(B, config.gamma).to(self.device) if config.normalize_rewards else nn.Identity()
        self.reward_norm: nn.Module = norm  # Maps clipped rewards [...] to normalized rewards
        self.agent = self.build_agent(spec)
        check_parameters(self.agent.model)
        self.agent.model.to(self.device).eval()  # `Learner` switches the model to train mode during updates only.

    @abstractmethod
    def build_agent(self, spec: EnvSpec) -> Agent:
        """Build the agent, whose model is trained."""

    def build_optimizer(self, size: int) -> Optimizer:
        c = self.config
        return make_optimizer(
            c.optimizer, size, alpha=c.rmsprop_alpha, epsilon=c.optimizer_eps, device=str(self.device)
        )

    def schedules(self, progress: float, env_steps: int) -> dict[str, float]:
        """All numbers that change over the run, by name, including `learning_rate`. Before each optimisation phase,
        these numbers become attributes of `now`. The number named `epsilon` also becomes the agent's epsilon. The class
        `Schedules` explains `progress` and `env_steps`."""
        c = self.config
        return {"learning_rate": c.learning_rate * remaining(c.learning_rate_schedule, progress)}

    def begin(self) -> None:
        """Allocate the algorithm's memory, such as a replay. The runner calls `begin` before the first rollout, or
        before a state is loaded."""

    @abstractmethod
    def ingest(self, rollout: Rollout) -> None:
        """Process a sampled rollout: compute its advantages, or append the rollout to a replay. The network is in eval
        mode while a rollout is processed."""

    @abstractmethod
    def batches(self) -> Iterator[Any]:
        """The batches of the next optimisation phase: epochs of minibatches, or samples of a replay. The runner makes
        one update after each batch. If the runner stops a phase early, the next call of `batches` yields the remaining
        batches."""

    @abstractmethod
    def loss(self, batch: Any) -> Loss:
        """Compute the loss of one batch, without side effects."""

    def after_update(self, batch: Any, loss: Loss) -> None:
        """The runner calls `after_update` after each update, for example to set priorities of a replay. Target networks
        are updated in `ingest`, not in `after_update`."""

    def after_phase(self) -> None:
        """The runner calls `after_phase` after the last update of each optimisation phase that makes updates. The
        network is in eval mode."""

    def state_dict(self) -> dict[str, Any]:
        """State for checkpoints, without parameters, optimizer state and `now`."""
        return {"agent": self.agent.state_dict(), "reward_norm": dict(self.reward_norm.state_dict())}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.agent.load_state_dict(state["agent"])
        self.reward_norm.load_state_dict(state.get("reward_norm", {}))


def remaining(schedule: str, progress: float) -> float:
    """1 - progress if the schedule is linear, and otherwise 1."""
    return 1 - progress if schedule == "linear" else 1.0


def set_schedules(algo: Algorithm) -> None:
    """Set `now` and the agent's epsilon to the current values of the schedules. Does not synchronize with a GPU."""
    values = algo.schedules(algo.now.progress, algo.now.env_steps)
    algo.now.set(values)
    set_epsilon(algo.agent, values)


def set_epsilon(agent: Agent, values: Mapping[str, float]) -> None:
    if "epsilon" in values:
        agent.epsilon = values["epsilon"]  # type: ignore[attr-defined]


def advance(algo: Algorithm, rollout: Rollout) -> None:
    """Count the env steps of this rank's new rollout, and advance the schedules and the statistics of rewards. The
    runner calls `advance` once per rollout, before `ingest`."""
    algo.now.count(algo.communicator.count(rollout.env_steps))
    set_schedules(algo)
    if isinstance(algo.reward_norm, RewardNorm):
        algo.reward_norm.add(clipped(rollout.reward, algo.config.reward_clip), rollout, algo.communicator)


def require(config: Any, **tests: tuple[bool, str]) -> None:
    """Raise ConfigError for the first field whose test is false: `require(c, gamma=(c.gamma <= 1, "at most 1"))`."""
    known = {f.name for f in fields(config)}
    for name, (holds, allowed) in tests.items():
        assert name in known
        if not holds:
            flag = name.replace("_", "-")
            raise ConfigError(f"--algo.{flag} {getattr(config, name)}: must be {allowed}")
