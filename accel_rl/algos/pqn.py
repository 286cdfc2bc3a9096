"""PQN (parallelised Q-network; Gallici et al. 2024, arXiv:2407.04811) is Q-learning from rollouts, with neither a
replay nor a target network."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar, Literal

from torch import Tensor
from torch.nn.functional import mse_loss
from typing_extensions import TypeVar

from accel_rl.agents.epsilon_greedy import MaxValueAgent, RecurrentMaxValueAgent
from accel_rl.algos.algorithm import AlgorithmConfig, Loss
from accel_rl.algos.minibatches import Minibatches
from accel_rl.algos.network_config import NetworkConfig
from accel_rl.algos.policy_gradient import PolicyBatch, PolicyGradient
from accel_rl.data.spec import EnvSpec
from accel_rl.models.layers import LayerNorm
from accel_rl.models.q_network import QNetwork
from accel_rl.models.recurrent import RecurrentQNetwork
from accel_rl.ops.policy_loss import mean_over
from accel_rl.ops.q_learning import batched_index, spread_powers
from accel_rl.optim.optimizers import AnyOptimizer
from accel_rl.text.bounds import NonNegative, NonNegativeCount, Positive, PositiveCount, Share


@dataclass(frozen=True)
class PQNConfig(NetworkConfig, AlgorithmConfig):
    """The defaults are those of Gallici et al.'s code for Atari (purejaxql, pqn_atari.yaml), except for the values in
    the table below. On two CPU cores, PQN reaches a score of 18 on Pong sooner with this project's values.

    | | Gallici et al.'s code | here |
    |---|---|---|
    | environments x horizon | 128 x 32 | 32 x 32 |
    | learning rate | 2.5e-4, constant | 1e-3, linear |
    | lambda | 0.65 | 0.85 |
    | epsilon_final | 0.001 | 0.01 |
    | epsilon_evaluation | 0 | 0.001 |
    | network | nature | a3c |
    | layer_norm | before-channels | after |

    The preset `pqn2024` has the settings of Gallici et al. 2024, and `hadamax2025` those of Kooi et al. 2025.
    """

    learning_rate: Positive = 1e-3
    """Learning rate (Gallici et al.'s code: 2.5e-4)."""
    learning_rate_schedule: Literal["constant", "linear"] = "linear"
    """With `linear` the learning rate decays to zero over the run. Gallici et al.'s code uses a `constant` learning
    rate."""
    gae_lambda: Share = 0.85
    """Parameter lambda of the returns (Gallici et al.'s code: 0.65)."""
    epochs: PositiveCount = 2
    """Number of passes over each rollout (Gallici et al.'s code: 2)."""
    minibatch: PositiveCount = 128
    """Number of samples in one update, summed over the ranks that share the update (Gallici et al.'s code: 128 x 32 /
    32). If the minibatch size does not divide the rollout, the minibatches are smaller and of nearly equal size."""
    epsilon_final: Share = 0.01
    """Final epsilon of epsilon-greedy exploration (Gallici et al.'s code: 0.001)."""
    exploration: Share = 0.1
    """Fraction of the run over which epsilon decays linearly from 1 to its final value (Gallici et al.'s code: 0.1)."""
    epsilon_spread: NonNegative = 0.0
    """Environment i of B explores with epsilon^(1 + spread i / (B - 1)) (Horgan et al. 2018: 7). With 0, all
    environments use the same epsilon (Gallici et al. 2024)."""
    epsilon_evaluation: Share = 0.001
    """Epsilon in evaluations (Gallici et al.'s code: 0; Bellemare et al. 2017: 0.001). If epsilon is 0 in an
    evaluation, the agent may repeat the same actions for the rest of an episode, for example on Breakout."""
    clip_grad_norm: NonNegative = 10.0
    """L2 norm to which the gradient is clipped (Gallici et al.'s code: 10). With 0, the gradient is not clipped."""
    optimizer: AnyOptimizer = "radam"
    """Optimizer of the parameters (Gallici et al.'s code: RAdam). `torch:AdamW(weight_decay=0.01)` is a class of
    torch.optim with its options."""
    layer_norm: LayerNorm = "after"
    """Position of the layer norm: before each activation of the network, or after each. The norm is over all features
    of a layer, and with `before-channels` over the channels of each pixel (Gallici et al. 2024). At PQN's default
    learning rate, networks with norms before the activations learn Pong sooner, but do not learn Breakout. Without
    layer norms, Q-learning without a target network can diverge."""
    lstm: NonNegativeCount = 0
    """Number of units of an LSTM between the network's body and the head of action values. With 0, the network has no
    LSTM."""

    def check(self) -> None:
        super().check()


C = TypeVar("C", bound=PQNConfig, default=PQNConfig, covariant=True)


class PQN(PolicyGradient[C]):
    """Several epochs of minibatch updates per rollout. The targets are lambda-returns, which are computed once per
    rollout.

    With V = max_a Q, the lambda-return `batch.target` is V plus the advantage of GAE.
    """

    Config: ClassVar[type[PQNConfig]] = PQNConfig
    agent: MaxValueAgent
    sampling = {"envs": 32, "horizon": 32}  # noqa: RUF012

    def build_agent(self, spec: EnvSpec) -> MaxValueAgent:
        c = self.config
        if c.lstm:
            network = RecurrentQNetwork(spec, c.lstm, c.network, **c.layers)
            agent: MaxValueAgent = RecurrentMaxValueAgent(network, 1.0, c.epsilon_evaluation)
        else:
            agent = MaxValueAgent(QNetwork(spec, c.network, **c.layers), 1.0, c.epsilon_evaluation)
        if c.epsilon_spread:
            agent.spread(spread_powers(c.epsilon_spread, 0, self.B, self.B, self.device))
        return agent

    def schedules(self, progress: float, env_steps: int) -> dict[str, float]:
        c = self.config
        decayed = min(progress / c.exploration, 1.0) if c.exploration else 1.0
        return {**super().schedules(progress, env_steps), "epsilon": 1 + (c.epsilon_final - 1) * decayed}

    def minibatches(self) -> Iterator[Tensor]:
        c = self.config
        return Minibatches(c.epochs, c.minibatch).draw(self.rollout, self.communicator, bool(self.agent.state_size))

    def loss(self, batch: PolicyBatch) -> Loss:
        """1/2 E[(G^lambda - Q(s, a))^2], the squared error of the lambda-return (Gallici et al. 2024, algorithm 1)."""
        q, _ = self.agent.forward(batch.obs, batch.memory)
        mean = mean_over(batch.valid)
        value = batched_index(q, batch.action)
        total = 0.5 * mean(mse_loss(value, batch.target, reduction="none"))
        metrics = {"loss": total, "td_error": mean((batch.target - value).abs()), "q": mean(q.amax(-1))}
        return Loss(total, {name: x.detach() for name, x in metrics.items()}, samples=batch.samples)
