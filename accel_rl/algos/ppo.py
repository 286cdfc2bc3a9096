"""PPO is proximal policy optimization (Schulman et al. 2017, arXiv:1707.06347; Stooke & Abbeel 2018, sections 3.1 and
5.3)."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
from torch import Tensor
from torch.nn.functional import mse_loss
from typing_extensions import TypeVar

from accel_rl.agents.policy import CategoricalPolicyAgent
from accel_rl.algos.algorithm import Loss, remaining
from accel_rl.algos.minibatches import Minibatches
from accel_rl.algos.policy_gradient import PolicyBatch, PolicyGradient, PolicyGradientConfig, Samples
from accel_rl.distributed.communicator import SINGLE_PROCESS, Communicator
from accel_rl.ops.policy_loss import clipped_surrogate, clipped_value_error, explained_variance, mean_over, sampled_kl
from accel_rl.text.bounds import NonNegative, Positive, PositiveCount, Share


@dataclass(frozen=True)
class PPOConfig(PolicyGradientConfig):
    """The defaults are those of Stooke & Abbeel 2018, section 5.3, except for the values in the table below. On two CPU
    cores, PPO needs fewer seconds and fewer env steps to reach a score of 10 on Pong with this project's values.

    | | Stooke & Abbeel's code | here |
    |---|---|---|
    | environments x horizon | 8 x 256 | 16 x 128 |
    | minibatch | 512 | 256 |
    | value_coefficient | 1 | 0.5 |
    | clip_grad_norm | none | 0.5 |
    | normalize_advantage | none | minibatch |
    | clip_schedule | linear, as the learning rate | constant |

    The experiment `stooke:ppo_scaling` has the settings of Stooke & Abbeel 2018, who increase the number of simulators
    from 8 (--envs 8 --horizon 256) to 512 (--envs 512 --horizon 4), at a fixed batch size of 2,048.
    """

    learning_rate: Positive = 1e-3
    """Learning rate of Adam (Stooke & Abbeel's code: 1e-3)."""
    learning_rate_schedule: Literal["constant", "linear", "kl"] = "linear"
    """With `linear` the learning rate decays to zero over the run (Schulman et al. 2017, table 5). With `kl` the
    learning rate is adapted to the measured KL divergence (--algo.schedule-kl)."""
    gae_lambda: Share = 0.95
    """Parameter lambda of generalized advantage estimation (Schulman et al. 2017, table 5)."""
    value_coefficient: NonNegative = 0.5
    """Weight of the value loss, which is the squared error without a factor 1/2 (Schulman et al. 2017, table 5: 1 x
    1/2)."""
    clip: Positive = 0.2
    """The probability ratio is clipped to 1 +- this value (Stooke & Abbeel's code: 0.2)."""
    clip_schedule: Literal["constant", "linear"] = "constant"
    """With `linear` the clip range decays to zero over the run (Schulman et al. 2017, table 5)."""
    value_clip: NonNegative = 0.0
    """The difference between the new value and the value at sampling time is clipped to +- this number (OpenAI
    baselines use the clip range of the ratio). With 0, the difference is not clipped."""
    epochs: PositiveCount = 4
    """Number of passes over each rollout (Stooke & Abbeel 2018, section 5.1: training intensity 4)."""
    minibatch: PositiveCount = 256
    """Number of samples in one update, summed over the ranks that share the update (Stooke & Abbeel's code: 512). If
    the minibatch size does not divide the rollout, the minibatches are smaller and of nearly equal size."""
    normalize_advantage: Literal["minibatch", "rollout", "none"] = "minibatch"
    """Advantages of the policy loss are normalized to mean 0 and standard deviation 1 over each minibatch (OpenAI
    baselines, CleanRL), over each rollout, or not at all. Value targets are never normalized."""
    target_kl: NonNegative = 0.0
    """The epochs of a rollout stop when KL(old || new), in nats, exceeds 1.5 times this value (as in Spinning Up). With
    0 the epochs never stop early."""


C = TypeVar("C", bound=PPOConfig, default=PPOConfig, covariant=True)


class PPO(PolicyGradient[C]):
    """Several epochs of minibatch updates per rollout, with the clipped surrogate objective."""

    Config: ClassVar[type[PPOConfig]] = PPOConfig
    agent: CategoricalPolicyAgent
    sampling = {"envs": 16, "horizon": 128}  # noqa: RUF012

    def schedules(self, progress: float, env_steps: int) -> dict[str, float]:
        c = self.config
        return {**super().schedules(progress, env_steps), "clip": c.clip * remaining(c.clip_schedule, progress)}

    def estimate(self, samples: Samples) -> tuple[Tensor, Tensor]:
        advantage, target = super().estimate(samples)
        if self.config.normalize_advantage == "rollout":
            advantage = normalized(advantage, samples.valid, self.communicator)
        return advantage, target

    def minibatches(self) -> Iterator[Tensor]:
        c, sequences = self.config, bool(self.agent.state_size)
        return Minibatches(c.epochs, c.minibatch).draw(self.rollout, self.communicator, sequences)

    def batch(self, index: Tensor | None = None) -> PolicyBatch:
        batch: PolicyBatch = super().batch(index)
        if self.config.normalize_advantage == "minibatch":
            batch.advantage = normalized(batch.advantage, batch.valid, self.communicator)
        return batch

    def loss(self, batch: PolicyBatch) -> Loss:
        """-L^CLIP + c_v E[(R - V)^2] - c_e E[H(pi)] (Schulman et al. 2017 eq. 7 and 9): clipped policy loss, value loss
        and entropy bonus."""
        c = self.config
        logits, value, _ = self.agent.forward(batch.obs, batch.memory)
        log_ratio = self.policy.log_prob(logits, batch.action) - batch.recorded["log_prob"]
        clip = self.now.clip
        ratio = log_ratio.exp()
        mean = mean_over(batch.valid)
        policy_loss = -mean(clipped_surrogate(ratio, batch.advantage, clip))
        if c.value_clip:
            error = clipped_value_error(value, batch.recorded["value"], batch.target, c.value_clip)
        else:
            error = mse_loss(value, batch.target, reduction="none")
        value_loss = mean(error)
        policy_entropy = mean(self.policy.entropy(logits))
        return self.combine_losses(
            policy_loss, value_loss, policy_entropy, batch.samples,
            value=mean(value),
            kl=mean(sampled_kl(log_ratio)),
            clipped=mean(((ratio - 1).abs() > clip).float()),
            explained_variance=explained_variance(batch.recorded["value"], batch.target, mean),
        )  # fmt: skip

    def after_update(self, batch: PolicyBatch, loss: Loss) -> None:
        if self.config.target_kl:
            kl = self.communicator.all_reduce_sum(loss.metrics["kl"].clone()).item() / self.communicator.size
            self.stopped = kl > 1.5 * self.config.target_kl


def normalized(advantage: Tensor, valid: Tensor | None, communicator: Communicator = SINGLE_PROCESS) -> Tensor:
    """Subtract the mean of the valid advantages from `advantage` [...], and divide by their standard deviation. Mean
    and standard deviation are computed over all ranks."""
    if valid is None and communicator.size == 1:
        return advantage if advantage.numel() < 2 else (advantage - advantage.mean()) / (advantage.std() + 1e-8)
    mask = torch.ones_like(advantage) if valid is None else valid.to(advantage.dtype)
    chosen = torch.where(mask > 0, advantage, 0)
    n, total = communicator.all_reduce_sum(torch.stack([mask.sum(), chosen.sum()]))
    deviations = communicator.all_reduce_sum((torch.where(mask > 0, chosen - total / n, 0)).square().sum())
    scaled = (advantage - total / n) / ((deviations / (n - 1).clamp(min=1)).sqrt() + 1e-8)
    return torch.where(n < 2, advantage, scaled)
