"""IQN is the implicit quantile network (Dabney et al. 2018, arXiv:1806.06923)."""

from dataclasses import dataclass, replace
from typing import ClassVar

import torch
from torch import Tensor
from typing_extensions import TypeVar

from accel_rl.algos.algorithm import Loss
from accel_rl.algos.qrdqn import QRDQN, QRDQNConfig
from accel_rl.data.spec import EnvSpec
from accel_rl.models.implicit_quantile import ImplicitQuantileNetwork
from accel_rl.ops.q_learning import batched_index
from accel_rl.ops.quantiles import quantile_huber
from accel_rl.replays.ring import ReplayBatch
from accel_rl.text.bounds import PositiveCount


@dataclass(frozen=True)
class IQNConfig(QRDQNConfig):
    """The defaults are those of Dabney et al. 2018, IQN."""

    quantiles: PositiveCount = 64
    """Number N of random quantiles of the action that was played (Dabney et al. 2018: 64). With 8 `quantiles`,
    `target_quantiles` and `value_quantiles`, an update on a CPU takes a seventh of the time."""
    target_quantiles: PositiveCount = 64
    """Number N' of random quantiles in the target (Dabney et al. 2018: 64)."""
    value_quantiles: PositiveCount = 32
    """Number K of random quantiles whose mean is the value of an action (Dabney et al. 2018: 32)."""
    cosines: PositiveCount = 64
    """Number of cosines in the embedding of a quantile fraction tau (Dabney et al. 2018: 64)."""


C = TypeVar("C", bound=IQNConfig, default=IQNConfig, covariant=True)


class IQN(QRDQN[C]):
    """Learns the return's quantiles at random fractions tau, which are inputs of the network."""

    Config: ClassVar[type[IQNConfig]] = IQNConfig
    FIRST_COSINE: ClassVar[int] = 1

    def build_model(self, spec: EnvSpec) -> ImplicitQuantileNetwork:
        c = self.config
        return ImplicitQuantileNetwork(
            spec, c.network, c.value_quantiles, c.cosines, self.FIRST_COSINE, **self.network_options()
        )

    def loss(self, batch: ReplayBatch) -> Loss:
        """E[w sum_i E_j rho_kappa(r + gamma Z'_tau'_j(s', a*) - Z_tau_i(s, a))], the weighted loss of algorithm 1, with
        tau and tau' uniform in (0, 1). Stream 0 of random fractions is used to select actions, stream 1 for tau, stream
        2 for tau', and stream 3 for the online log-policy."""
        c, model, target, N = self.config, self.agent.model, self.target, len(batch.a_tm1)
        tau, features = model.tau(N, c.quantiles, 1), model.body(batch.obs_tm1)
        quantiles = model.quantiles(features, tau)
        q = quantiles.detach().mean(-1)
        with torch.no_grad():
            features_t = target.body(batch.obs_t)
            quantiles_t = target.quantiles(features_t, target.tau(N, c.target_quantiles, 2))
            q_tm1 = model.mean(features.detach(), 3) if c.munchausen and c.munchausen_policy == "online" else q
            reward, value = self.bootstrap(batch, q_tm1, self.next_values(batch, features_t, quantiles_t), quantiles_t)
            targets = reward[:, None] + batch.discount_t[:, None] * value
        chosen = batched_index(quantiles, batch.a_tm1)
        losses = quantile_huber(targets, chosen, tau, c.huber)
        error = (targets[:, None, :] - chosen.detach()[:, :, None]).abs().mean(-1).sum(-1)
        return self.combine_losses(batch, losses, error, q)

    def after_update(self, batch: ReplayBatch, loss: Loss) -> None:
        """A transition that was drawn twice has two errors, because quantiles are random. The larger error determines
        the transition's priority."""
        if self.config.replay.prioritized and loss.error is not None:
            error = loss.error.to(batch.cell.device)
            loss = replace(loss, error=torch.where(batch.cell[:, None] == batch.cell, error, 0).amax(-1))
        super().after_update(batch, loss)

    def next_values(self, batch: ReplayBatch, features_t: Tensor, quantiles_t: Tensor) -> Tensor:
        """Values [N, A] of the next actions, from which the target selects its action."""
        if self.config.double:
            return self.agent.model.q(batch.obs_t)
        result: Tensor = self.target.mean(features_t, 0)
        return result
