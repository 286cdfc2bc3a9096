"""IMPALA is A2C with V-trace, on several batches per sampled window (Espeholt et al. 2018; Dalton & Frosio 2020,
section 5)."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor
from torch.nn.functional import mse_loss
from typing_extensions import TypeVar

from accel_rl.algos.a2c import A2C, A2CConfig
from accel_rl.algos.algorithm import Loss, require
from accel_rl.algos.policy_gradient import Samples
from accel_rl.algos.window import RolloutWindow
from accel_rl.data.rollout import Rollout
from accel_rl.data.spec import EnvSpec
from accel_rl.ops.policy_loss import explained_variance, finite_where_invalid, mean_over
from accel_rl.ops.returns import vtrace
from accel_rl.text.bounds import Positive, PositiveCount


@dataclass(frozen=True)
class IMPALAConfig(A2CConfig):
    """The defaults are those of Dalton & Frosio 2020, Table 3, second column (5 batches, N = 5, one update per step).

    The setting --horizon corresponds to SPU (steps per update) in Dalton & Frosio 2020. Dalton & Frosio report neither
    network nor learning rate, so this project uses those of A2C.
    """

    window: PositiveCount = 5
    """Number N of steps in the window on which an update trains, a multiple of the horizon (Table 3: 5 or 20)."""
    batches: PositiveCount = 5
    """Number of groups of environments. Each update trains on the next group, in turn (Table 3: 1, 5 or 20 groups)."""
    rho_clip: Positive = 1.0
    """Upper bound of the importance weight of a temporal difference in V-trace, called rho-bar (Espeholt et al. 2018:
    1)."""
    c_clip: Positive = 1.0
    """Upper bound of the importance weights by which V-trace multiplies later temporal differences, called c-bar
    (Espeholt et al. 2018: 1)."""

    def check_sampling(self, T: int, B: int) -> None:
        require(
            self,
            window=(self.window % T == 0, f"a multiple of the horizon {T}"),
            batches=(B % self.batches == 0, f"a divisor of the {B} environments"),
        )


C = TypeVar("C", bound=IMPALAConfig, default=IMPALAConfig, covariant=True)


class IMPALA(A2C[C]):
    """One update per rollout, on the last steps of one group of environments. Earlier policies sampled some of the
    window's steps. With one batch and a window of the rollout's length, IMPALA equals A2C."""

    Config: ClassVar[type[IMPALAConfig]] = IMPALAConfig
    on_policy = (
        False  # IMPALA's loss recomputes values, and V-trace corrects for the older policy that sampled the rollout.
    )
    sampling = {"envs": 120, "horizon": 1}  # noqa: RUF012  Dalton & Frosio 2020, Table 3

    def __init__(self, config: C, spec: EnvSpec, *, T: int, B: int, device: str = "cpu"):
        super().__init__(config, spec, T=T, B=B, device=device)
        self.window = RolloutWindow(config.window, T, self.device)
        self.turn = 0  # Index of the group of environments that provides the next batch

    @property
    def update_batch(self) -> int:
        return self.config.window * self.B * self.communicator.size // self.config.batches

    def ingest(self, rollout: Rollout) -> None:
        """Append the rollout, and assemble the next window from the group of environments whose turn it is."""
        self.window.append(rollout)
        n, first = self.B // self.config.batches, self.turn
        self.turn = (self.turn + 1) % self.config.batches
        self.samples = None
        if self.window.ready:
            self.samples = self.prepare(self.window.rollout(slice(first * n, (first + 1) * n)))

    def minibatches(self) -> Iterator[None]:
        if self.samples is not None:
            yield None

    def batch(self, index: Tensor | None = None) -> Samples:
        assert self.samples is not None
        return self.samples

    def loss(self, batch: Samples) -> Loss:  # type: ignore[override]  # The batch is a window.
        """-E[log pi(a|s) rho (r + gamma v' - V)] + c_v E[(v - V)^2] - c_e E[H(pi)] (Espeholt et al. 2018, section 4.2):
        policy loss, value loss and entropy bonus. IMPALA's batch is a window of N steps. One forward pass computes
        logits and values of all N + 1 observations."""
        c, r, valid = self.config, batch.rollout, batch.valid
        N = r.T
        obs, mu = r.observations(0, N + 1), r.recorded["log_prob"]
        if valid is not None:
            obs = finite_where_invalid(obs, torch.cat([valid, valid[-1:]]).flatten())
            mu = finite_where_invalid(mu, valid)
        logits, value, _ = self.agent.forward(obs, r.memory(0, N + 1))
        logits, values = logits.view(N + 1, r.B, -1)[:-1], value.view(N + 1, r.B)
        value = values[:-1]
        log_pi = self.policy.log_prob(logits, r.action)
        with torch.no_grad():
            trace = vtrace(
                log_pi - mu, self.reward(r), self.discount(r), value, self.next_value(r, value, values[-1]),
                lambda_=c.gae_lambda, rho_clip=c.rho_clip, c_clip=c.c_clip, cut=r.truncated,
            )  # fmt: skip
        mean = mean_over(valid)
        policy_loss = -mean(log_pi * trace.advantage)
        value_loss = mean(mse_loss(value, trace.target, reduction="none"))
        policy_entropy = mean(self.policy.entropy(logits))
        return self.combine_losses(
            policy_loss, value_loss, policy_entropy, r.valid.sum(),
            value=mean(value),
            ratio=mean((log_pi - mu).exp()),
            explained_variance=explained_variance(value.detach(), trace.target, mean),
        )  # fmt: skip

    def state_dict(self) -> dict[str, Any]:
        return {**super().state_dict(), "window": self.window.state_dict(), "turn": self.turn}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        super().load_state_dict(state)
        self.window.load_state_dict(state["window"])
        self.turn = state["turn"]
