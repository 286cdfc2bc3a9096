"""Networks that have more than trained parameters: frozen layers, running statistics, Dropout, layers in two orders."""

import os
from typing import Any

import torch
from torch import Tensor, nn

from accel_rl.agents.policy import CategoricalPolicyAgent
from accel_rl.algos.algorithm import Loss
from accel_rl.algos.dqn import DQN
from accel_rl.algos.ppo import PPO
from accel_rl.data.spec import EnvSpec
from accel_rl.models.q_network import QNetwork

# The environment variable that lets `Ordered` register its value layer before its policy layer.
VALUE_FIRST = "ACCEL_RL_TEST_VALUE_FIRST"


class Net(nn.Module):
    """obs [N, n] -> (logits [N, A], value [N])."""

    def __init__(self, spec: EnvSpec, front: nn.Module):
        super().__init__()
        n = spec.frame_shape[0]
        self.front = front
        self.body = nn.Sequential(nn.Linear(n, 32), nn.Tanh())
        self.pi, self.v = nn.Linear(32, spec.n_actions), nn.Linear(32, 1)

    def forward(self, obs: Tensor) -> tuple[Tensor, Tensor]:
        x = self.body(self.front(obs))
        return self.pi(x), self.v(x).squeeze(-1)


class Normalized(nn.Module):
    """Normalizes observations by a running mean and variance.

    Each update replaces the buffers of mean and variance by new tensors.
    """

    def __init__(self, n: int):
        super().__init__()
        self.mean: Tensor
        self.var: Tensor
        self.register_buffer("mean", torch.zeros(n))
        self.register_buffer("var", torch.ones(n))

    def forward(self, obs: Tensor) -> Tensor:
        if self.training:
            self.mean = self.mean.lerp(obs.mean(0), 0.05)
            self.var = self.var.lerp(obs.var(0), 0.05)
        return (obs - self.mean) / (self.var + 1e-4).sqrt()


class FrozenPPO(PPO):
    """PPO with trained heads on frozen random features."""

    def build_agent(self, spec: EnvSpec) -> CategoricalPolicyAgent:
        net = Net(spec, nn.Identity())
        net.body.requires_grad_(False)
        return CategoricalPolicyAgent(net)


class NormalizedPPO(PPO):
    def build_agent(self, spec: EnvSpec) -> CategoricalPolicyAgent:
        return CategoricalPolicyAgent(Net(spec, Normalized(spec.frame_shape[0])))


class BatchNormPPO(PPO):
    def build_agent(self, spec: EnvSpec) -> CategoricalPolicyAgent:
        return CategoricalPolicyAgent(Net(spec, nn.BatchNorm1d(spec.frame_shape[0])))


class DropoutPPO(PPO):
    def build_agent(self, spec: EnvSpec) -> CategoricalPolicyAgent:
        return CategoricalPolicyAgent(Net(spec, nn.Dropout(0.5)))


class Noise(nn.Module):
    """Adds noise of torch's default generator in training and evaluation, and counts its calls in a buffer."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: Tensor
        self.register_buffer("calls", torch.zeros((), dtype=torch.int64))

    def forward(self, obs: Tensor) -> Tensor:
        self.calls = self.calls + 1
        return obs + 0.1 * torch.randn_like(obs) + 0.01 * self.calls


class NoisePPO(PPO):
    def build_agent(self, spec: EnvSpec) -> CategoricalPolicyAgent:
        return CategoricalPolicyAgent(Net(spec, Noise()))


class Ordered(nn.Module):
    """A network whose policy and value layers are registered in an order that VALUE_FIRST selects."""

    def __init__(self, spec: EnvSpec):
        super().__init__()
        n = spec.frame_shape[0]
        for name in ("v", "pi") if os.environ.get(VALUE_FIRST) else ("pi", "v"):
            outputs = spec.n_actions if name == "pi" else 1
            self.add_module(name, nn.Sequential(nn.Linear(n, 32), nn.Tanh(), nn.Linear(32, outputs)))

    def forward(self, obs: Tensor) -> tuple[Tensor, Tensor]:
        return self.pi(obs), self.v(obs).squeeze(-1)


class OrderedPPO(PPO):
    def build_agent(self, spec: EnvSpec) -> CategoricalPolicyAgent:
        return CategoricalPolicyAgent(Ordered(spec))


class BatchNormQ(QNetwork):
    """Q-network on normalized observations."""

    def __init__(self, spec: EnvSpec, network: str):
        super().__init__(spec, network)
        self.front = nn.BatchNorm1d(spec.frame_shape[0])

    def outputs(self, obs: Tensor, noise: bool = True) -> Tensor:
        return super().outputs(self.front(obs), noise)


class BatchNormDQN(DQN):
    def build_model(self, spec: EnvSpec) -> QNetwork:
        return BatchNormQ(spec, self.config.network)


class LazyPPO(PPO):
    def build_agent(self, spec: EnvSpec) -> CategoricalPolicyAgent:
        net = Net(spec, nn.Identity())
        net.body[0] = nn.LazyLinear(32)
        return CategoricalPolicyAgent(net)


class OrthogonalPPO(PPO):
    """PPO whose network has a buffer that is not contiguous in memory."""

    def build_agent(self, spec: EnvSpec) -> CategoricalPolicyAgent:
        net = Net(spec, nn.Identity())
        nn.utils.parametrizations.orthogonal(net.body[0])
        return CategoricalPolicyAgent(net)


class SharedPPO(PPO):
    """PPO whose network has two layers with one shared weight."""

    def build_agent(self, spec: EnvSpec) -> CategoricalPolicyAgent:
        n = spec.frame_shape[0]
        front = nn.Sequential(nn.Linear(n, n), nn.Tanh(), nn.Linear(n, n))
        front[2].weight = front[0].weight
        return CategoricalPolicyAgent(Net(spec, front))


class PredictionPPO(PPO):
    """PPO that also trains a prediction network (as in Burda et al. 2018) by an optimizer of torch."""

    def __init__(self, config: Any, spec: EnvSpec, **options: Any):
        super().__init__(config, spec, **options)
        self.prediction = nn.Linear(spec.frame_shape[0], 4)
        self.adam = torch.optim.Adam(self.prediction.parameters(), lr=1e-3)

    def after_update(self, batch: Any, loss: Loss) -> None:
        super().after_update(batch, loss)
        with torch.enable_grad():
            error = self.prediction(batch.obs).square().mean()
            self.adam.zero_grad()
            error.backward()
            self.adam.step()
        loss.metrics["prediction"] = error.detach()

    def state_dict(self) -> dict[str, Any]:
        return {**super().state_dict(), "prediction": self.prediction.state_dict(), "adam": self.adam.state_dict()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        super().load_state_dict(state)
        self.prediction.load_state_dict(state["prediction"])
        self.adam.load_state_dict(state["adam"])
