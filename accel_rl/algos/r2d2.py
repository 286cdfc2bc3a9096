"""R2D2 (recurrent replay distributed DQN; Kapturowski et al. 2019, openreview.net/forum?id=r1lyTjAqYX) is Q-learning
with an LSTM, from a replay of sequences."""

from dataclasses import dataclass, field
from typing import ClassVar, Literal

import torch
from torch import Tensor
from typing_extensions import TypeVar

from accel_rl.agents.epsilon_greedy import EpsilonGreedyAgent, LastStepAgent
from accel_rl.algos.algorithm import Loss, require
from accel_rl.algos.dqn import DQN, DQNConfig
from accel_rl.algos.reward_norm import clipped
from accel_rl.data.spec import EnvSpec
from accel_rl.models.sequence_q_network import SequenceQNetwork
from accel_rl.ops.masks import masked
from accel_rl.ops.q_learning import huber
from accel_rl.ops.recurrent_replay import mixed_priority, n_step_return, rescaled, unscaled
from accel_rl.optim.optimizers import AnyOptimizer
from accel_rl.replays.config import PRIORITIZED, ReplayConfig
from accel_rl.replays.ring import NStep
from accel_rl.replays.sequences import SequenceBatch, SequenceRing, SequenceShape
from accel_rl.text.bounds import NonNegative, NonNegativeCount, Positive, PositiveCount, Share


@dataclass(frozen=True)
class R2D2Config(DQNConfig):
    """The defaults are those of Kapturowski et al. 2019, table 2 and section 2.3. Values that they do not report are
    those of Ape-X (Horgan et al. 2018), whose settings they adopt, or of SEED RL's R2D2 (Espeholt et al. 2020)."""

    replay: ReplayConfig = field(
        default_factory=lambda: ReplayConfig(prioritized=True, alpha=0.9, beta=0.6, beta_final=0.6)
    )
    batch_size: PositiveCount = 64
    """Number of sequences in one update, summed over all ranks that share the update (Kapturowski et al. 2019: 64)."""
    intensity: Positive = 0.8
    """Training intensity: the average number of times that each transition is used (Kapturowski et al. 2019: about
    0.8)."""
    lstm: PositiveCount = 512
    """Number of units of the LSTM (Kapturowski et al. 2019: 512)."""
    length: PositiveCount = 80
    """Number of trained steps of a sequence (Kapturowski et al. 2019: 80)."""
    burn_in: NonNegativeCount = 40
    """Number of steps before the trained steps, over which the LSTM only computes its state (Kapturowski et al. 2019:
    40)."""
    period: PositiveCount = 40
    """Number of steps between the beginnings of two sequences, a multiple of the horizon (Kapturowski et al. 2019:
    40)."""
    eta: Share = 0.9
    """A sequence's priority is eta times its largest error plus (1 - eta) times its mean error (Kapturowski et al.
    2019: 0.9)."""
    rescale: NonNegative = 1e-3
    """Epsilon of the rescaled values h(x) = sign(x) (sqrt(|x| + 1) - 1) + epsilon x (Kapturowski et al. 2019: 1e-3).
    With 0, values are not rescaled."""
    n_step: PositiveCount = 5
    """Number of rewards in the n-step return before the bootstrap value (Kapturowski et al. 2019: 5)."""
    gamma: Share = 0.997
    """Discount factor (Kapturowski et al. 2019: 0.997)."""
    reward_clip: NonNegative | None = 0.0
    """Rewards are clipped to +- reward_clip. With 0, rewards are not clipped (Kapturowski et al. 2019)."""
    double: bool = True
    """In double Q-learning, the online network selects the next action, and the target network evaluates this action
    (van Hasselt et al. 2016)."""
    dueling: bool = True
    """A dueling network has separate streams for the state value and the action advantages (Wang et al. 2016)."""
    huber: NonNegative = 0.0
    """Threshold of the Huber loss, which is quadratic for errors up to the threshold and linear beyond. With 0, the
    loss is the squared error (Kapturowski et al. 2019)."""
    target_interval: PositiveCount = 2_500
    """Number of updates between two copies to the target network (Kapturowski et al. 2019: 2,500). If target_unit is
    `env-steps`, the number of env steps."""
    target_unit: Literal["env-steps", "updates"] = "updates"
    """Unit of target_interval."""
    learning_rate: Positive = 1e-4
    """Learning rate of Adam (Kapturowski et al. 2019: 1e-4)."""
    optimizer: AnyOptimizer = "adam"
    """Optimizer of the parameters (Kapturowski et al. 2019: Adam). The allowed optimizers are the same as for `c51`."""
    optimizer_eps: Positive = 1e-3
    """Epsilon of the optimizer (Kapturowski et al. 2019: 1e-3)."""
    clip_grad_norm: NonNegative = 40.0
    """L2 norm to which the gradient is clipped (Espeholt et al. 2020: 40). With 0, the gradient is not clipped."""
    epsilon: Share = 0.4
    """Initial epsilon of epsilon-greedy exploration, at the first update (Horgan et al. 2018: 0.4)."""
    epsilon_final: Share = 0.4
    """Final epsilon of epsilon-greedy exploration (Horgan et al. 2018: 0.4)."""
    epsilon_steps: NonNegativeCount | None = 0
    """Env steps, from the first update, over which epsilon changes linearly to its final value. With 0, epsilon is
    constant (Horgan et al. 2018)."""
    epsilon_spread: NonNegative = 7.0
    """Environment i of B explores with epsilon^(1 + spread i / (B - 1)) (Horgan et al. 2018: 7). With 0, all
    environments use the same epsilon."""
    epsilon_evaluation: Share = 0.001
    """Epsilon in evaluations (Espeholt et al. 2020: 0.001)."""
    network: str = "nature"
    """Network for image observations, whose output the LSTM reads. The names of networks are the same as for `dqn`.
    Kapturowski et al. 2019 use `nature`."""

    def inactive(self) -> dict[str, str]:
        return super().inactive() | ({} if self.replay.prioritized else {"eta": PRIORITIZED})

    @property
    def transitions_per_update(self) -> int:
        return self.batch_size * self.length

    @property
    def shape(self) -> SequenceShape:
        return SequenceShape(self.burn_in, self.length, self.period, 2 * self.lstm + 2)

    def horizon(self, B: int) -> int:
        """The largest divisor of the period that does not exceed the default horizon of other algorithms with a
        replay."""
        most = super().horizon(B)
        return next(T for T in range(min(most, self.period), 0, -1) if self.period % T == 0)

    def check_sampling(self, T: int, B: int) -> None:
        require(self, period=(self.period % T == 0, f"a multiple of --sampler.horizon {T}"))
        super().check_sampling(T, B)

    def least_rows(self, T: int) -> int:
        """A replay of this size always contains a complete sequence, although each new rollout overwrites several of
        its rows."""
        return super().least_rows(T) + self.burn_in + self.length + 2 * self.period


C = TypeVar("C", bound=R2D2Config, default=R2D2Config, covariant=True)


class R2D2(DQN[C]):
    """Learns action values from sequences, whose first steps only compute the state of the LSTM."""

    Config: ClassVar[type[R2D2Config]] = R2D2Config

    def build_agent(self, spec: EnvSpec) -> EpsilonGreedyAgent:
        return self.explorer(LastStepAgent(self.build_model(spec), 1.0, self.config.epsilon_evaluation))

    def build_model(self, spec: EnvSpec) -> SequenceQNetwork:
        c = self.config
        return SequenceQNetwork(spec, c.network, c.lstm, **self.network_options())

    def build_ring(self, spec: EnvSpec, B: int, size: int, returns: NStep, device: str) -> SequenceRing:
        return SequenceRing(spec, B, size, returns, device, self.config.shape)

    def loss(self, batch: SequenceBatch) -> Loss:  # type: ignore[override]
        """E[w sum_t 1/2 (h(r_t + ... + gamma^n h^-1(q'(s_{t+n}, a*))) - q(s_t, a_t))^2] over the trained steps."""
        c = self.config
        begin, length = c.burn_in, c.length
        q, after = self._unrolled(self.agent.model, batch)
        with torch.no_grad():
            q_t, after_t = self._unrolled(self.target, batch)
            value = self._greedy_value(q_t[1:], q[1:])
            if len(batch.cut):
                t = batch.cut_t - begin
                at_cuts = torch.where(batch.cut, self._values_at_cuts(batch, after_t, after), value.gather(0, t))
                value = value.scatter(0, t, at_cuts)
            reward = self.reward_norm(clipped(batch.reward[begin:-1], c.reward_clip))
            terminated, ended = batch.terminated[begin:-1], batch.ended[begin:-1]
            discount = c.gamma * (~terminated).float()
            returns = n_step_return(reward, discount, unscaled(value, c.rescale), terminated | ended, c.n_step)
            target = rescaled(returns, c.rescale)
        chosen = q[:length].gather(-1, batch.action[begin : begin + length, :, None]).squeeze(-1)
        error = torch.where(batch.mask, target - chosen, 0)
        losses = huber(error, c.huber).sum(0)
        total = (batch.weight * losses).mean()
        steps = batch.mask.sum().clamp(min=1)
        metrics = {
            "loss": total,
            "td_error": error.abs().sum() / steps,
            "q": torch.where(batch.mask, q[:length].amax(-1), 0).sum() / steps,
        }
        priority = mixed_priority(error.detach(), batch.mask, c.eta)
        return Loss(total, {name: x.detach() for name, x in metrics.items()}, priority)

    def _unrolled(self, model: SequenceQNetwork, batch: SequenceBatch) -> tuple[Tensor, Tensor]:
        """q [length + n, N, A], and the LSTM's state after each step, from the end of the burn-in on. No gradient is
        computed through the burn-in."""
        begin, last, state = self.config.burn_in, batch.last(), batch.state
        first = batch.age == 0
        if begin:
            with torch.no_grad():
                _, after = model.unroll(batch.observations(0, begin), first[:begin], state, last[:begin])
            state = torch.cat([after[-1], state[:, -2:]], -1)
        obs = batch.observations(begin, len(first))
        q, after = model(obs, first[begin:], state, last[begin:])
        q = masked(q, obs, self.spec.mask)
        return q.unflatten(0, (-1, len(state))), after

    def _greedy_value(self, q_t: Tensor, q: Tensor) -> Tensor:
        """The target network's value q_t(argmax_a q(a)) [...], from q_t and q [..., A]. Without double Q-learning, the
        value is max_a q_t(a)."""
        chosen = (q if self.config.double else q_t).argmax(-1, keepdim=True)
        return q_t.gather(-1, chosen).squeeze(-1)

    def _values_at_cuts(self, batch: SequenceBatch, after_t: Tensor, after: Tensor) -> Tensor:
        """The values [C, N] of the last observations of episodes that a time limit cut."""
        t, n = batch.cut_t, torch.arange(batch.cut_t.shape[1], device=batch.cut_t.device)
        last = torch.stack([batch.action[t, n].float(), batch.reward[t, n]], -1)
        first = torch.zeros(1, t.numel(), dtype=torch.bool, device=t.device)
        q_t, q = (
            model(
                batch.cut_obs.flatten(0, 1), first, torch.cat([h[t - self.config.burn_in, n], last], -1).flatten(0, 1)
            )[0]
            for model, h in ((self.target, after_t), (self.agent.model, after))
        )
        q_t, q = (masked(x, batch.cut_obs.flatten(0, 1), self.spec.mask) for x in (q_t, q))
        return self._greedy_value(q_t, q).view_as(t)
