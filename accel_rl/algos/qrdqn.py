"""QR-DQN is quantile regression DQN (Dabney et al. 2018, arXiv:1710.10044)."""

from dataclasses import dataclass
from typing import ClassVar

import torch
from typing_extensions import TypeVar

from accel_rl.algos.algorithm import Loss
from accel_rl.algos.dqn import DQN, DQNConfig
from accel_rl.data.spec import EnvSpec
from accel_rl.models.q_network import QNetwork, QuantileNetwork
from accel_rl.ops.q_learning import batched_index
from accel_rl.ops.quantiles import midpoints, quantile_huber
from accel_rl.optim.optimizers import AnyOptimizer
from accel_rl.replays.ring import ReplayBatch
from accel_rl.text.bounds import NonNegative, Positive, PositiveCount, Share


@dataclass(frozen=True)
class QRDQNConfig(DQNConfig):
    """The defaults are those of Dabney et al. 2018, QR-DQN-1."""

    quantiles: PositiveCount = 200
    """Number of quantiles of the return (Dabney et al. 2018: 200)."""
    huber: NonNegative = 1.0
    """Threshold kappa of the quantile Huber loss (Dabney et al. 2018: 1). With 0, the loss is the absolute error."""
    learning_rate: Positive = 5e-5
    """Learning rate of Adam (Dabney et al. 2018: 5e-5)."""
    optimizer: AnyOptimizer = "adam"
    """Optimizer of the parameters (Dabney et al. 2018: Adam). The allowed optimizers are the same as for `c51`."""
    optimizer_eps: Positive = 0.01 / 32
    """Epsilon of the optimizer (Dabney et al. 2018: 0.01 / 32)."""
    epsilon_final: Share = 0.01
    """Final epsilon of epsilon-greedy exploration (Dabney et al. 2018: 0.01)."""
    epsilon_evaluation: Share = 0.001
    """Epsilon in evaluations (Dabney et al. 2018: 0.001)."""

    def usual_loss(self) -> float:
        """Return the loss for an error of twice the largest clipped reward in all quantiles."""
        error = torch.full((1, self.quantiles), 2 * (self.reward_clip or 0.0))
        return (
            float(quantile_huber(error, torch.zeros_like(error), midpoints(self.quantiles, error.device), self.huber))
            / self.batch_size
        )


C = TypeVar("C", bound=QRDQNConfig, default=QRDQNConfig, covariant=True)


class QRDQN(DQN[C]):
    """QR-DQN learns quantiles of the return of each action. A sample's priority is its loss."""

    Config: ClassVar[type[QRDQNConfig]] = QRDQNConfig

    def build_model(self, spec: EnvSpec) -> QNetwork:
        return QuantileNetwork(spec, self.config.network, atoms=self.config.quantiles, **self.network_options())

    def loss(self, batch: ReplayBatch) -> Loss:
        """Compute E[w sum_i E_j rho_kappa(r + gamma theta'_j(s', a*) - theta_i(s, a))], the weighted loss of algorithm
        1."""
        model: QuantileNetwork = self.agent.model
        quantiles = model(batch.obs_tm1)
        q = quantiles.detach().mean(-1)
        with torch.no_grad():
            quantiles_t = self.target(batch.obs_t)
            q_t = model.q(batch.obs_t) if self.config.double else quantiles_t.mean(-1)
            reward, value = self.bootstrap(batch, q, q_t, quantiles_t)
            target = reward[:, None] + batch.discount_t[:, None] * value
        tau = midpoints(self.config.quantiles, target.device)
        losses = quantile_huber(target, batched_index(quantiles, batch.a_tm1), tau, self.config.huber)
        return self.combine_losses(batch, losses, losses, q)
