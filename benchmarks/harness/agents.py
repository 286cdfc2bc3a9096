"""The agents of the benchmarks, which act at random, by A3C-Net, or by DQN-Net."""

import torch

from accel_rl.agents.agent import Agent, RandomAgent
from accel_rl.agents.epsilon_greedy import EpsilonGreedyAgent
from accel_rl.agents.policy import CategoricalPolicyAgent
from accel_rl.data.spec import EnvSpec
from accel_rl.models.actor_critic import ActorCritic
from accel_rl.models.q_network import QNetwork
from accel_rl.training.stored_agents import load_policy

NETS = ("none", "a3c", "dqn")
NAMES = {"none": "random actions", "a3c": "A3C-Net", "dqn": "DQN-Net"}


def make_agent(net: str, spec: EnvSpec, device: str = "cpu", policy: str = "") -> Agent:
    """Make an agent with the network `net` (one of NETS). Its weights are those of the run in the folder `policy`, or
    untrained weights from a fixed seed if `policy` is empty. Raises ConfigError if the run has another network."""
    torch.manual_seed(0)
    if net == "none":
        return RandomAgent(spec.n_actions)
    agent: Agent
    if net == "a3c":
        agent = CategoricalPolicyAgent(ActorCritic(spec).to(device))
    else:
        agent = EpsilonGreedyAgent(QNetwork(spec, "dqn").to(device), epsilon=0.1)
    if policy:
        load_policy(agent, policy)
    return agent
