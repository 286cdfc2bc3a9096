"""C51 is categorical DQN (Bellemare et al. 2017, arXiv:1707.06887; Stooke & Abbeel 2018, section 5.4.1)."""

import math
from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
from typing_extensions import TypeVar

from accel_rl.algos.algorithm import Loss, require
from accel_rl.algos.dqn import DQN, DQNConfig
from accel_rl.data.spec import EnvSpec
from accel_rl.models.q_network import CategoricalQNetwork
from accel_rl.ops.q_learning import batched_index, cross_entropy, entropy, expectation, project
from accel_rl.optim.optimizer import Optimizer
from accel_rl.optim.optimizers import AnyOptimizer, is_adam, make_optimizer
from accel_rl.replays.config import PRIORITIZED
from accel_rl.replays.ring import ReplayBatch
from accel_rl.text.bounds import Positive, Share, TwoOrMore


@dataclass(frozen=True)
class C51Config(DQNConfig):
    """The defaults are those of Bellemare et al. 2017, as Stooke & Abbeel 2018 train C51. The learning rates of Stooke
    & Abbeel are 2.5e-4 at a batch size of 32, and 4.2e-4 at batch sizes from 256 to 2,048."""

    atoms: TwoOrMore = 51
    """Number of atoms of the return distribution, called Z (Bellemare et al. 2017: 51)."""
    v_min: float = -10.0
    """Minimum return of the distribution, which is the first atom (Bellemare et al. 2017: -10)."""
    v_max: float = 10.0
    """Maximum return of the distribution, which is the last atom (Bellemare et al. 2017: 10)."""
    priority: Literal["divergence", "cross-entropy"] = "divergence"
    """Error from which a transition's priority is computed: the KL divergence of the target from the prediction (Hessel
    et al. 2018), or the loss, which also contains the entropy of the target (Dopamine)."""
    optimizer: AnyOptimizer = "adam"
    """Optimizer of the parameters (Bellemare et al. 2017: Adam). `adam-epsilon-hat` adds epsilon to the root of the
    second moment without bias correction (Stooke & Abbeel, appendix A). `torch:AdamW(weight_decay=0.01)` is a class of
    torch.optim with its options."""
    optimizer_eps: Positive = 0.01
    """Epsilon of the optimizer. With Adam, epsilon is divided by the batch size (Stooke & Abbeel, section 5.4.1: 0.01).
    With other optimizers, epsilon is used unchanged (Stooke & Abbeel, figure 9: 1e-6)."""
    epsilon_final: Share = 0.01
    """Final epsilon of epsilon-greedy exploration (Bellemare et al. 2017: 0.01)."""
    epsilon_evaluation: Share = 0.001
    """Epsilon in evaluations (Bellemare et al. 2017: 0.001)."""

    def inactive(self) -> dict[str, str]:
        return super().inactive() | ({} if self.replay.prioritized else {"priority": PRIORITIZED})

    def usual_loss(self) -> float:
        """The cross entropy of a return to which the network had assigned a probability of 1e-6."""
        return -math.log(1e-6) / self.batch_size

    def check(self) -> None:
        super().check()
        require(self, v_max=(-math.inf < self.v_min < self.v_max < math.inf, f"above --algo.v-min {self.v_min}"))


C = TypeVar("C", bound=C51Config, default=C51Config, covariant=True)


class C51(DQN[C]):
    """Learns the distribution of the return of each action by Q-learning on fixed atoms."""

    Config: ClassVar[type[C51Config]] = C51Config

    def build_model(self, spec: EnvSpec) -> CategoricalQNetwork:
        c = self.config
        return CategoricalQNetwork(spec, c.network, c.atoms, c.v_min, c.v_max, **self.network_options())

    def build_optimizer(self, size: int) -> Optimizer:
        c = self.config
        epsilon = c.optimizer_eps / c.batch_size if is_adam(c.optimizer) else c.optimizer_eps
        return make_optimizer(c.optimizer, size, alpha=c.rmsprop_alpha, epsilon=epsilon, device=str(self.device))

    def loss(self, batch: ReplayBatch) -> Loss:
        """E[w H(projected r + gamma z, p(s, a))], the weighted cross entropy of Bellemare et al. 2017, algorithm 1."""
        model: CategoricalQNetwork = self.agent.model
        atoms = model.support
        logits = model(batch.obs_tm1)
        with torch.no_grad():
            q = expectation(logits, atoms)
            p_t = torch.softmax(self.target(batch.obs_t), -1)
            q_t = model.q(batch.obs_t) if self.config.double else p_t @ atoms
            reward, p = self.bootstrap(batch, q, q_t, p_t)
            target = project(reward[:, None] + batch.discount_t[:, None] * atoms, p, atoms)
        losses = cross_entropy(target, batched_index(logits, batch.a_tm1))
        error = losses.detach()
        if self.config.priority == "divergence":
            error = error - entropy(target)  # KL(target || prediction)
        return self.combine_losses(batch, losses, error, q)
