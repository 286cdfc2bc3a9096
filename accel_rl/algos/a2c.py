"""A2C is batched, synchronous advantage actor-critic (Mnih et al. 2016; Stooke & Abbeel 2018, sections 3.1 and 5.3)."""

import math
from dataclasses import dataclass
from typing import ClassVar, Literal

from torch.nn.functional import mse_loss
from typing_extensions import TypeVar

from accel_rl.agents.policy import CategoricalPolicyAgent
from accel_rl.algos.algorithm import Loss
from accel_rl.algos.policy_gradient import PolicyBatch, PolicyGradient, PolicyGradientConfig
from accel_rl.ops.policy_loss import explained_variance, mean_over
from accel_rl.optim.optimizers import AnyOptimizer
from accel_rl.text.bounds import Positive, PositiveCount, Share


@dataclass(frozen=True)
class A2CConfig(PolicyGradientConfig):
    """The defaults are those of Stooke & Abbeel 2018, section 5.3, and of their published code (learning rate 7e-4 at
    16 x 5 samples)."""

    learning_rate_scaling: Literal["sqrt", "linear", "none"] = "sqrt"
    """Scaling of the learning rate with the batch size. With `sqrt` the learning rate is multiplied by the square root
    of the batch size (section 5.3), with `linear` by the batch size (Clemente et al. 2017), and with `none` the
    learning rate is not scaled."""
    warmup: Share = 0.0
    """Fraction of the run over which the learning rate rises linearly from --algo.learning-rate to its scaled value.
    Goyal et al. 2017 (section 2.2) use a warmup of 5 of 90 epochs. Stooke & Abbeel (section 5.3) found no effect of the
    warmup. With 0, the learning rate has its scaled value from the beginning."""
    reference_batch: PositiveCount = 80
    """Batch size, in samples, at which the learning rate is not scaled (16 environments x 5 steps)."""
    max_learning_rate: Positive = 3e-3
    """Upper bound of the scaled learning rate (3e-3 in section 5.3)."""
    optimizer: AnyOptimizer = "rmsprop-torch"
    """Optimizer of the parameters. `rmsprop` adds epsilon inside the root, as the first implementations of A2C did, and
    `rmsprop-torch` adds epsilon outside the root. `torch:AdamW(weight_decay=0.01)` is a class of torch.optim with its
    options.

    Gradients of A2C are small: about 2e-4 per parameter in Pong. An epsilon of 1e-5 inside the root is larger than the
    squared gradients, and makes steps 20 times shorter. After 760,000 env steps of Pong, the score is still -20 with
    epsilon inside the root; with `rmsprop-torch`, the agent begins to win.
    """

    def inactive(self) -> dict[str, str]:
        names = ("reference_batch", "max_learning_rate") if self.learning_rate_scaling == "none" else ()
        return super().inactive() | dict.fromkeys(names, "--learning-rate-scaling")


C = TypeVar("C", bound=A2CConfig, default=A2CConfig, covariant=True)


class A2C(PolicyGradient[C]):
    """One update per rollout, on the whole rollout."""

    Config: ClassVar[type[A2CConfig]] = A2CConfig
    agent: CategoricalPolicyAgent
    on_policy = True
    sampling = {"envs": 16, "horizon": 5}  # noqa: RUF012  Stooke & Abbeel 2018, section 5.3

    @property
    def update_batch(self) -> int:
        """Number of samples in one update, summed over all ranks that share the update."""
        return self.T * self.B * self.communicator.size

    def schedules(self, progress: float, env_steps: int) -> dict[str, float]:
        c = self.config
        rate, growth = c.learning_rate, self.update_batch / c.reference_batch
        if c.learning_rate_scaling != "none":
            growth = math.sqrt(growth) if c.learning_rate_scaling == "sqrt" else growth
            rate = min(rate * growth, max(rate, c.max_learning_rate))
        if progress < c.warmup:
            rate = c.learning_rate + (rate - c.learning_rate) * progress / c.warmup
        return {"learning_rate": rate * self.rate_share(progress)}

    def loss(self, batch: PolicyBatch) -> Loss:
        """-E[log pi(a|s) A] + c_v E[(R - V)^2] - c_e E[H(pi)] (Mnih et al. 2016, section 4): policy loss, value loss
        and entropy bonus."""
        logits, value, _ = self.agent.forward(batch.obs, batch.memory)
        mean = mean_over(batch.valid)
        policy_loss = -mean(self.policy.log_prob(logits, batch.action) * batch.advantage)
        value_loss = mean(mse_loss(value, batch.target, reduction="none"))
        policy_entropy = mean(self.policy.entropy(logits))
        return self.combine_losses(
            policy_loss, value_loss, policy_entropy, batch.samples,
            value=mean(value),
            explained_variance=explained_variance(value.detach(), batch.target, mean),
        )  # fmt: skip
