"""The classes of agents and network modules whose inference may be captured and replayed without Python.

A replay repeats only kernel calls, so a registered agent or module must not count, log or draw random numbers in its
`act` or `forward`. A subclass that overrides `act` or `forward` is captured only if it is registered itself.
"""

import logging
from collections.abc import Callable, Container, Hashable
from typing import Any

import torch.nn.modules.module
from torch import nn

from accel_rl.agents.agent import Agent
from accel_rl.agents.epsilon_greedy import EpsilonGreedyAgent, LastStepAgent, MaxValueAgent, RecurrentMaxValueAgent
from accel_rl.agents.policy import CategoricalPolicyAgent, PolicyAgent, RecurrentPolicyAgent
from accel_rl.models.actor_critic import ActorCritic, Heads
from accel_rl.models.body import MixedNet, UsersNet
from accel_rl.models.convolution import Conv2d, ConvNet, NormConv2d
from accel_rl.models.hadamax import HadamaxBlock, NormedGELU
from accel_rl.models.implicit_quantile import CosineEmbedding, ImplicitQuantileNetwork
from accel_rl.models.layers import ACTIVATIONS, MLP, ChannelNorm, Head, Linear, Norm, NormedReLU, RunningNorm
from accel_rl.models.networks import NETWORKS
from accel_rl.models.noisy import NoisyLinear
from accel_rl.models.q_network import CategoricalQNetwork, QNetwork, QuantileNetwork, Stream
from accel_rl.models.recurrent import RecurrentActorCritic, RecurrentQNetwork
from accel_rl.models.residual import ResidualBlock, Section
from accel_rl.models.sequence_q_network import SequenceQNetwork
from accel_rl.models.spectral_norm import SpectralNorm

logger = logging.getLogger(__name__)


class Same:
    """A key that compares objects by identity. The key holds a reference to its object, so that no other object can get
    the same id."""

    def __init__(self, value: object):
        self.value = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Same) and other.value is self.value

    def __hash__(self) -> int:
        return id(self.value)


_MODULES: set[type[nn.Module]] = {
    ActorCritic, Heads, QNetwork, CategoricalQNetwork, QuantileNetwork, Stream, ConvNet, *NETWORKS.values(), Conv2d,
    NormConv2d, Linear, Head, MLP, RecurrentActorCritic, NoisyLinear, nn.Sequential, nn.Linear, nn.LSTMCell,
    nn.LayerNorm, nn.Tanh, nn.Conv2d, nn.MaxPool2d, Section, ResidualBlock, RecurrentQNetwork, Norm,
    NormedReLU, ChannelNorm, HadamaxBlock, NormedGELU, SpectralNorm, nn.AdaptiveMaxPool2d, CosineEmbedding,
    ImplicitQuantileNetwork, SequenceQNetwork, RunningNorm, UsersNet, MixedNet, *ACTIVATIONS.values(),
}  # fmt: skip
# Maps each agent class to a function that returns the values, other than the inputs and parameters, on which `act`
# depends.
_AGENTS: dict[type, Callable[[Any], Hashable]] = {
    CategoricalPolicyAgent: lambda agent: agent.greedy,
    RecurrentPolicyAgent: lambda agent: agent.greedy,
    PolicyAgent: lambda agent: (agent.greedy, agent.epsilon),
    EpsilonGreedyAgent: lambda agent: (Same(agent.epsilon_tensor), agent.explores, agent.needs_obs),
    MaxValueAgent: lambda agent: (Same(agent.epsilon_tensor), agent.explores),
    RecurrentMaxValueAgent: lambda agent: (Same(agent.epsilon_tensor), agent.explores),
    LastStepAgent: lambda agent: (Same(agent.epsilon_tensor), agent.explores),
}


def register_module(cls: type[nn.Module]) -> type[nn.Module]:
    """Decorator of a module class whose forward pass only calls kernels, and depends only on its input and
    parameters."""
    _MODULES.add(cls)
    return cls


def register_agent(cls: type, depends_on: Callable[[Any], Hashable] = lambda agent: None) -> type:
    """`depends_on` returns the values on which the agent's `act` depends, other than observations, uniform random
    numbers and parameters."""
    _AGENTS[cls] = depends_on
    return cls


def refusal(agent: Agent) -> str | None:
    """The reason why the agent's inference is not captured, or None if it may be captured."""
    if _registered(type(agent), _AGENTS, ("act", "forward", "logits", "value")) is None:
        return f"{type(agent).__name__} is not registered as capturable"
    if "act" in vars(agent) or "forward" in vars(agent):
        return f"act or forward of this {type(agent).__name__} was replaced"
    return module_refusal(agent.model)


def module_refusal(model: nn.Module) -> str | None:
    """The reason why a network's forward pass is not captured during acting, or None if it may be captured."""
    for name, m in model.named_modules():
        if _registered(type(m), _MODULES, ("forward", "__call__")) is None:
            return f"{type(m).__name__} ({name or 'the network'}) is not registered as capturable"
    return hook_of(model)


def _registered(cls: type, classes: Container[type], methods: tuple[str, ...]) -> type | None:
    """Return `cls` if it is registered, or a registered base class from which `cls` inherits all `methods`. Return None
    if neither of the two classes exists."""
    base = next((c for c in cls.__mro__ if c in classes), None)
    if base is None or any(getattr(cls, name, None) is not getattr(base, name, None) for name in methods):
        return None
    return base


def hook_of(model: nn.Module) -> str | None:
    """A text about the network's first hook, which a replay would not call, or None."""
    if torch.nn.modules.module._has_any_global_hook():
        return "a global module hook is registered"
    for name, m in model.named_modules():
        if "forward" in vars(m) or m._forward_hooks or m._forward_pre_hooks:
            return f"{name or 'the network'} has a hook, or its forward was replaced"
    return None


def backward_hook_of(model: nn.Module) -> str | None:
    """A text about the network's first gradient hook, or None. A gradient hook may read an algorithm's attributes
    without being recorded (`Reads.recorder`)."""
    for name, m in model.named_modules():
        if m._backward_hooks or m._backward_pre_hooks:
            return f"{name or 'the network'} has a backward hook"
    for name, p in model.named_parameters():
        if p._backward_hooks:
            return f"the gradient of {name} has a hook"
    return None


class Eligibility:
    """Decides whether an agent's inference may be captured, and which captures can be reused.

    The attribute `key` identifies everything on which captured inference depends, and is None if the agent may not be
    captured.
    """

    def __init__(self, never: str):
        """`never` is the reason why no agent may be captured, or an empty string."""
        self.key: Hashable | None = None
        self._never = never
        self._logged: set[str] = set()
        self._failed: Hashable | None = None
        self._addresses: tuple[int, ...] = ()

    def use(self, agent: Agent, settings: Hashable) -> bool:
        """Prepare for captures of `agent`, and return whether earlier captures became invalid. `settings` are other
        values on which captures depend."""
        why = self._never or refusal(agent)
        if why:
            self.refuse(why)
        key = None if why else _key(agent, settings)
        if key == self._failed:
            key = None
        addresses, is_other = tuple(p.data_ptr() for p in agent.model.parameters()), key != self.key
        if is_other:
            self.key, self._addresses = key, addresses
        assert key is None or self._addresses == addresses, (
            "parameters moved to other memory after inference was captured: copy new values into them"
        )
        return is_other

    def fail(self, why: str) -> None:
        """Log that the capture of the current agent failed, and do not try again."""
        self.key, self._failed = None, self.key
        self.refuse(why)

    def refuse(self, why: str) -> None:
        """Log a reason once."""
        if why not in self._logged:
            logger.info(f"inference is not captured, Python runs at every step: {why}")
        self._logged.add(why)


def _key(agent: Agent, settings: Hashable) -> Hashable:
    registered = _registered(type(agent), _AGENTS, ("act", "forward", "logits", "value"))
    assert registered is not None
    return type(agent), _AGENTS[registered](agent), settings, agent.model
