"""What a sampler asks of an agent."""

from collections.abc import Hashable
from typing import Any, Protocol

import torch.nn.modules.module
from torch import Tensor, nn

from accel_rl.data.rnn_state import RnnState


class Agent(Protocol):
    """`act` turns a batch of observations into actions; the randomness comes from outside, one number a step.

    An agent whose parameters others change has two methods more. `refresh(b)` is called before each act for the
    environments b; it may replace the parameters and returns whether it did. `acting()` is a context that the act is
    inside of: parameters must not be replaced while any thread is in it.
    """

    @property
    def model(self) -> nn.Module: ...

    @property
    def needs_obs(self) -> bool:
        """False: it acts without looking, and its observations (`obs` is None then) are not even put together."""

    @property
    def reentrant(self) -> bool:
        """Whether `act` may be called from several threads at once, for different environments: it changes nothing of
        its own. Else one waits for the other."""

    def capturable(self) -> Hashable | None:
        """What `act` depends on beside observations, numbers and the parameters' values; None where it has to be called
        at every step. Else compiled calls that it has led to may be made again in its place (`CapturedInference`)."""

    state_size: int
    """Floats that the agent remembers per environment from step to step; 0: it has no memory."""

    def act(
        self, obs: Tensor, uniform: Tensor, memory: RnnState | None, b: slice = ...
    ) -> tuple[Tensor, dict[str, Tensor]]:
        """obs [N, ...], uniform [N] in [0, 1), of the environments b -> (action [N] int64, what to record, each [N]).

        `memory` (None without one) is of one step; its state is brought on in place.
        """

    def evaluating(self, greedy: bool = False) -> "Agent":
        """The same parameters, acting as in an evaluation (greedily, if asked)."""

    def state_dict(self) -> dict[str, Any]:
        """What acting depends on beside the parameters (an exploration schedule, say)."""

    def load_state_dict(self, state: dict[str, Any]) -> None: ...


def unchanged(agent: Any, kind: type) -> bool:
    """Whether it acts as `kind` does, and its network's forward pass only computes: all modules are this package's or
    torch's, and nobody listens to them."""
    if torch.nn.modules.module._has_any_global_hook():
        return False
    for m in agent.model.modules():
        ours = type(m).__module__.split(".")[0] in ("accel_rl", "torch") and "forward" not in vars(m)
        if not ours or m._forward_hooks or m._forward_pre_hooks:
            return False
    names = [name for name in ("act", "forward") if hasattr(kind, name)]
    return all(getattr(getattr(agent, name), "__func__", None) is getattr(kind, name) for name in names)


def acts_by(agent: Agent, settings: Hashable) -> Hashable | None:
    """What an agent's acts depend on beside what lies in memory and may change there; None where it has to be called
    at every step. settings: of whoever calls it."""
    capturable = getattr(agent, "capturable", None)
    how = None if capturable is None else capturable()
    return None if how is None else (how, settings, agent.model, tuple(p.data_ptr() for p in agent.model.parameters()))
