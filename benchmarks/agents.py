"""Who acts in a benchmark: nobody in particular (random actions), A3C-Net or DQN-Net."""

import torch
from torch import Tensor, nn

from accel_rl.agents.base import Agent
from accel_rl.agents.categorical import CategoricalPolicyAgent
from accel_rl.agents.random import RandomAgent
from accel_rl.data.memory import Memory
from accel_rl.data.spec import EnvSpec
from accel_rl.errors import ConfigError, nearest
from accel_rl.models.actor_critic import ActorCritic
from accel_rl.models.convolution import DQNNet

NETS = ("none", "a3c", "dqn")
NAMES = {"none": "random actions", "a3c": "A3C-Net", "dqn": "DQN-Net"}


class GreedyQAgent(RandomAgent):
    """The best action by DQN-Net's values, or with probability 0.1 a random one."""

    observes = True
    epsilon = 0.1

    def __init__(self, spec: EnvSpec):
        super().__init__(spec.n_actions)
        body = DQNNet(spec.stack, *spec.frame_shape)
        self.model = nn.Sequential(body, nn.Linear(body.out_features, spec.n_actions))

    @torch.no_grad()
    def act(
        self, obs: Tensor | None, uniform: Tensor, memory: Memory | None = None, b: slice = slice(None)
    ) -> tuple[Tensor, dict[str, Tensor]]:
        random, _ = super().act(None, (uniform / self.epsilon).clamp(max=1.0))
        return torch.where(uniform < self.epsilon, random, self.model(obs).argmax(-1)), {}


def check_net(net: str) -> None:
    """ConfigError, one line, for an unknown net."""
    if net not in NETS:
        raise ConfigError(f"--nets {net}: must be one of {', '.join(NETS)}{nearest(net, NETS)}")


def make_agent(net: str, spec: EnvSpec, device: str = "cpu") -> Agent:
    """The same untrained weights whenever it is called. ConfigError for an unknown net."""
    check_net(net)
    torch.manual_seed(0)
    if net == "none":
        return RandomAgent(spec.n_actions)
    agent = CategoricalPolicyAgent(ActorCritic(spec)) if net == "a3c" else GreedyQAgent(spec)
    agent.model.to(device)
    return agent
