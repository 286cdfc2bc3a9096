"""The interface between samplers and agents."""

from typing import Any, Protocol

from torch import Tensor, nn

from accel_rl.data.rollout import RnnState


class Agent(Protocol):
    """`act` turns a batch of observations into actions. Its randomness is an argument: one uniform number per
    environment.

    An agent whose parameters are changed by another process (`runners.pulling_agent`) has two more methods.
    `before_act(b)` is called before each act for the environments b, and may replace the parameters. Each act runs
    inside the context `acting()`; parameters must not be replaced while any thread is inside this context. Such an
    agent is a wrapper, and its attribute `wrapped` is the agent that acts.

    If an agent has the attribute `epsilon`, it is set to the current value of the algorithm's schedule `epsilon`.
    """

    @property
    def model(self) -> nn.Module: ...

    @property
    def needs_obs(self) -> bool:
        """Whether `act` reads observations. If not, no observations are gathered and `obs` is None."""

    @property
    def reentrant(self) -> bool:
        """Whether several threads may call `act` at the same time for different environments. Otherwise the calls are
        serialized."""

    state_size: int
    """Size of the recurrent state of one environment; 0 for an agent without one."""

    def act(
        self, obs: Tensor, uniform: Tensor, memory: RnnState | None, b: slice = ...
    ) -> tuple[Tensor, dict[str, Tensor]]:
        """obs [N, ...], uniform [N] in [0, 1), of the environments b -> (action [N] int64, values to record, each [N]).

        `memory` is the recurrent state at this step (None without one); `act` advances it in place.
        """

    def evaluating(self, greedy: bool = False) -> "Agent":
        """Return an agent with the same parameters that acts as in an evaluation; greedily if `greedy` is true."""

    def state_dict(self) -> dict[str, Any]:
        """Return the state that acting depends on besides the parameters, such as an exploration schedule."""

    def load_state_dict(self, state: dict[str, Any]) -> None: ...
