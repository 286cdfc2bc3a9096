"""Base class of algorithms that compute advantages and batches from whole rollouts."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor
from typing_extensions import TypeVar

from accel_rl.agents.agent import Agent
from accel_rl.agents.policy import CategoricalPolicyAgent, RecurrentPolicyAgent
from accel_rl.algos.algorithm import Algorithm, AlgorithmConfig, Loss, remaining
from accel_rl.algos.network_config import NetworkConfig
from accel_rl.algos.reward_norm import clipped
from accel_rl.data.rollout import RnnState, Rollout
from accel_rl.data.spec import EnvSpec
from accel_rl.models.actor_critic import ActorCritic, policy_of
from accel_rl.models.recurrent import RecurrentActorCritic
from accel_rl.ops.policies import Categorical, Policy
from accel_rl.ops.policy_loss import finite_where_invalid, sampled_kl
from accel_rl.ops.returns import generalized_advantage
from accel_rl.text.bounds import NonNegative, NonNegativeCount, Positive, Share


@dataclass(frozen=True)
class PolicyGradientConfig(NetworkConfig, AlgorithmConfig):
    """Settings of every policy-gradient algorithm."""

    learning_rate: Positive = 7e-4
    """Learning rate."""
    learning_rate_schedule: Literal["constant", "linear", "kl"] = "constant"  # type: ignore[assignment]  # it is wider
    """With `linear` the learning rate decays to zero over the run (Mnih et al. 2016). A2C of Stooke & Abbeel uses a
    `constant` learning rate. With `kl` the learning rate is adapted to the measured KL divergence
    (--algo.schedule-kl)."""
    schedule_kl: Positive = 0.01
    """With --algo.learning-rate-schedule kl, the target of KL(old || new), in nats, between the policy that acted and
    the policy after a rollout's updates (Rudin et al. 2022: 0.01). The learning rate is halved if the KL divergence
    exceeds twice the target, doubled if it is below half of the target, and stays between 1/128 and 16 times its
    setting."""
    gae_lambda: Share = 1.0
    """Parameter lambda of generalized advantage estimation (Schulman et al. 2016). With lambda 1, the advantage is that
    of A3C's n-step return."""
    value_coefficient: NonNegative = 0.25
    """Weight of the value loss, which is the squared error without a factor 1/2 (Stooke & Abbeel's code: 0.25)."""
    entropy_coefficient: NonNegative = 0.01
    """Weight of the policy's entropy, in nats (Mnih et al. 2016: 0.01)."""
    clip_grad_norm: NonNegative = 0.5
    """L2 norm to which the gradient of all parameters is clipped (Stooke & Abbeel's code: 0.5). With 0, the gradient is
    not clipped."""
    optimizer_eps: Positive = 1e-5
    """Epsilon of the optimizer (OpenAI baselines: 1e-5)."""
    lstm: NonNegativeCount = 0
    """Number of units of an LSTM between the network's body and its heads (A3C-LSTM, Mnih et al. 2016: 256). With 0,
    the network has no LSTM."""

    def inactive(self) -> dict[str, str]:
        needs = {} if self.learning_rate_schedule == "kl" else {"schedule_kl": "--learning-rate-schedule kl"}
        return super().inactive() | needs

    def check_spec(self, spec: EnvSpec, device: str) -> None:
        """Do nothing, because policy-gradient algorithms learn with actions of every kind."""


@dataclass(slots=True)
class PolicyBatch:
    """N samples: obs [N, ...], action [N, ...], advantage [N], value target [N], and valid [N] bool, or None if all
    samples are valid.

    `recorded` contains the values that the agent recorded while acting, by name, each [N]. For a recurrent agent the
    samples are whole sequences, [T * n] time-major. In invalid samples, non-finite numbers are replaced by zero. The
    action of an invalid sample must be a valid action.
    """

    obs: Tensor
    action: Tensor
    advantage: Tensor
    target: Tensor
    valid: Tensor | None
    recorded: dict[str, Tensor]
    memory: RnnState | None = None

    def __post_init__(self) -> None:
        if self.valid is not None:
            for name in ("obs", "advantage", "target"):
                setattr(self, name, finite_where_invalid(getattr(self, name), self.valid))
            self.recorded = {name: finite_where_invalid(x, self.valid) for name, x in self.recorded.items()}

    @property
    def samples(self) -> Tensor | float:
        """Number of valid samples."""
        return float(len(self.action)) if self.valid is None else self.valid.sum()


@dataclass(slots=True)
class Samples:
    """The samples of a rollout [T, B], from which batches are drawn.

    `valid` [T, B] bool is None if all steps are valid. `cut_values` [T, B] are the values V of the last observations of
    episodes that a time limit cut, and 0 elsewhere. `advantage` and value target `target` are [T, B]. If updates are
    captured on a GPU, `rollout` has neither final frames nor a copy in host memory.
    """

    rollout: Rollout
    valid: Tensor | None
    cut_values: Tensor
    advantage: Any = None
    target: Any = None


LOGITS = Categorical(0)
CHUNK = 4096
"""Number of samples whose policy is computed at a time to measure a KL divergence."""


C = TypeVar("C", bound=Any, default=PolicyGradientConfig, covariant=True)


class PolicyGradient(Algorithm[C]):
    """Computes the advantages of each rollout, and makes one update from the whole rollout. Subclasses define the loss,
    and the minibatches if one update is not enough.

    The agent must record its `value` and have a method `value(obs, memory)`. The algorithm's `config` must have the
    field gae_lambda.
    """

    Config: ClassVar[type[AlgorithmConfig]] = PolicyGradientConfig

    agent: Any
    rollout: Rollout
    samples: Samples | None = None
    doublings = 0  # Number of doublings of the learning rate by the schedule `kl`, minus number of halvings
    DOUBLINGS: ClassVar[tuple[int, int]] = (-7, 4)  # Bounds of `doublings`
    stopped = False  # Whether the newest rollout's remaining minibatches are skipped

    def build_agent(self, spec: EnvSpec) -> Agent:
        c = self.config
        policy = policy_of(spec)
        if c.lstm:
            return RecurrentPolicyAgent(RecurrentActorCritic(spec, c.lstm, c.network, **c.layers), policy=policy)
        return CategoricalPolicyAgent(ActorCritic(spec, c.network, **c.layers), policy=policy)

    @property
    def policy(self) -> Policy:
        """The distribution whose parameters the agent's network computes. If a user's agent has no `policy`, the
        parameters are logits."""
        return getattr(self.agent, "policy", LOGITS)

    def ingest(self, rollout: Rollout) -> None:
        self.samples = self.prepare(rollout)
        self.samples.advantage, self.samples.target = self.estimate(self.samples)

    def batches(self) -> Iterator[Any]:
        for index in self.minibatches():
            if self.stopped:
                return
            yield self.batch(index)

    def minibatches(self) -> Iterator[Tensor | None]:
        """For each update, yield the indices of its samples of the newest rollout, the argument of `batch`. The indices
        must not depend on the updates: if updates are captured on a GPU, all indices are drawn before the first
        update."""
        yield None

    def prepare(self, rollout: Rollout) -> Samples:
        """The samples of a rollout, without advantages."""
        self.rollout, self.stopped = rollout, False
        valid = None if rollout.is_whole else rollout.valid
        return Samples(rollout, valid, self._values_at_time_limits(rollout))

    # -- advantages ------------------------------------------------------------

    def estimate(self, samples: Samples) -> tuple[Tensor, Tensor]:
        """Advantages and value targets [T, B], without side effects."""
        rollout, valid = samples.rollout, samples.valid
        value = rollout.recorded["value"]
        # The bootstrap is the value V(s_T) of the last observation [B].
        bootstrap = self.agent.value(rollout.observations(rollout.T), rollout.memory(rollout.T, 1))
        # The discount of a step before an invalid step is 0. Because 0 x NaN is NaN, non-finite values are replaced.
        if valid is not None:
            value, bootstrap = finite_where_invalid(value, valid), finite_where_invalid(bootstrap, valid[-1])
        advantage = self.advantages(rollout, value, bootstrap)
        # The value target is a return, because the advantage has not been normalized yet.
        return advantage, advantage + value

    def advantages(self, rollout: Rollout, value: Tensor, bootstrap: Tensor) -> Tensor:
        """Generalized advantage estimation [T, B], from `value` [T, B] and `bootstrap` [B] = V(s_T)."""
        return generalized_advantage(
            self.reward(rollout), value, self.discount(rollout), bootstrap,
            self.next_value(rollout, value, bootstrap), self.config.gae_lambda, cut=rollout.truncated,
        )  # fmt: skip

    def reward(self, rollout: Rollout) -> Tensor:
        """Rewards [T, B], clipped (--reward-clip) and normalized (--normalize-rewards)."""
        reward = finite_where_invalid(rollout.reward, rollout.valid)
        return self.reward_norm(clipped(reward, self.config.reward_clip))

    def discount(self, rollout: Rollout) -> Tensor:
        """gamma * (1 - terminated) [T, B]"""
        return self.config.gamma * (~rollout.terminated).float()

    def next_value(self, rollout: Rollout, value: Tensor, bootstrap: Tensor) -> Tensor:
        """V(s_{t+1}) [T, B]. If a time limit cut the episode, s_{t+1} is the episode's last observation."""
        assert self.samples is not None
        next_value = torch.cat([value[1:], bootstrap[None]])
        return torch.where(rollout.truncated & ~rollout.terminated, self.samples.cut_values, next_value)

    def _values_at_time_limits(self, rollout: Rollout) -> Tensor:
        """V [T, B] of the last observations of episodes that a time limit cut, and 0 elsewhere."""
        values = torch.zeros_like(rollout.reward)
        if (cells := rollout.time_limits()) is not None:
            t, b = cells
            values[t, b] = self.agent.value(rollout.final_observation(t, b), self._memory_after(rollout, t, b))
        return values

    @torch.no_grad()
    def _memory_after(self, rollout: Rollout, t: Tensor, b: Tensor) -> RnnState | None:
        """Recurrent states after steps t [N] of environments b [N], or None if the agent has no recurrent state."""
        if rollout.state is None:
            return None
        states = self.agent.forward(rollout.observations(0, rollout.T), rollout.memory())[-1]
        return RnnState(states[t, b], torch.zeros(1, len(t), dtype=torch.bool, device=t.device))

    # -- batches ------------------------------------------------------------

    def batch(self, index: Tensor | None = None) -> Any:
        """Return the samples with the given indices, or by default all samples of the rollout, time-major. `index`
        lists the indices t * B + b [N] of samples in any order. For a recurrent agent, `index` lists indices of
        environments [n], whose steps stay together."""
        assert self.samples is not None
        r, valid = self.samples.rollout, self.samples.valid
        i: Tensor | slice = slice(None)
        memory = r.memory()
        if index is None:
            obs = r.observations(0, r.T)
        else:
            obs, memory, i = self._observed(r, index)
        return PolicyBatch(
            obs=obs,
            action=r.action.flatten(0, 1)[i],
            advantage=self.samples.advantage.reshape(-1)[i],
            target=self.samples.target.reshape(-1)[i],
            valid=None if valid is None else valid.reshape(-1)[i],
            recorded={name: x.flatten(0, 1)[i] for name, x in r.recorded.items()},
            memory=memory,
        )

    def _observed(self, r: Rollout, index: Tensor) -> tuple[Tensor, RnnState | None, Tensor]:
        """The observations, recurrent states and flat indices t * B + b of the samples that `index` selects."""
        if not self.agent.state_size:
            return r.observation(index // r.B, index % r.B), r.memory(), index
        i = (torch.arange(r.T, device=index.device)[:, None] * r.B + index).flatten()
        return r.observation(i // r.B, i % r.B), r.memory(b=index), i

    # -- learning rate ------------------------------------------------------------

    def schedules(self, progress: float, env_steps: int) -> dict[str, float]:
        rate = self.config.learning_rate * self.rate_share(progress)
        return {**super().schedules(progress, env_steps), "learning_rate": rate}

    def rate_share(self, progress: float) -> float:
        """The current learning rate divided by the setting learning_rate."""
        return remaining(self.config.learning_rate_schedule, progress) * 2.0**self.doublings

    def after_phase(self) -> None:
        c = self.config
        if c.learning_rate_schedule == "kl":
            kl, (least, most) = self.measured_kl(), self.DOUBLINGS
            step = int(kl < c.schedule_kl / 2) - int(kl > 2 * c.schedule_kl)
            self.doublings = min(max(self.doublings + step, least), most)

    @torch.no_grad()
    def measured_kl(self) -> float:
        """KL(old || new), in nats, between the policies that chose the newest samples of all ranks and the current
        policy. If the rollout is on a GPU, the host waits for the result."""
        assert self.samples is not None
        r, valid = self.samples.rollout, self.samples.valid
        units, each = (r.B, r.T) if self.agent.state_size else (r.T * r.B, 1)
        action, old = r.action.flatten(0, 1), r.recorded["log_prob"].flatten()
        counted = torch.ones_like(old, dtype=torch.bool) if valid is None else valid.flatten()
        sums = torch.zeros(2, dtype=torch.float64, device=action.device)
        for index in torch.arange(units, device=action.device).split(max(1, CHUNK // each)):
            obs, memory, i = self._observed(r, index)
            kl = sampled_kl(self.policy.log_prob(self.agent.forward(obs, memory)[0], action[i]) - old[i])
            sums += torch.stack([torch.where(counted[i], kl, 0).sum(), counted[i].sum()])
        total, n = self.communicator.all_reduce_sum(sums)
        return float(total / n)

    def state_dict(self) -> dict[str, Any]:
        return {**super().state_dict(), **({"doublings": self.doublings} if self.doublings else {})}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        super().load_state_dict(state)
        self.doublings = state.get("doublings", 0)

    # -- losses ------------------------------------------------------------

    def combine_losses(
        self,
        policy_loss: Tensor,
        value_loss: Tensor,
        policy_entropy: Tensor,
        samples: Tensor | float = 1.0,
        **report: Tensor,
    ) -> Loss:
        """policy_loss + c_v value_loss - c_e entropy. The losses and the entropy are scalars [], and means over
        `samples` samples. `report` contains further metrics of the update."""
        c = self.config
        total = policy_loss + c.value_coefficient * value_loss - c.entropy_coefficient * policy_entropy
        parts = {
            "loss": total,
            "policy_loss": policy_loss,
            "value_loss": value_loss,
            "entropy": policy_entropy,
            **report,
        }
        return Loss(total, {name: x.detach() for name, x in parts.items()}, samples=samples)
