"""The interface between samplers and agents."""

from typing import Any, Protocol

from torch import Tensor, nn

from accel_rl.data.rollout import RnnState


class Agent(Protocol):
    """`act` turns a batch of observations into actions. All randomness is an argument: one uniform number per
    environment.

    An agent whose parameters another process changes (`runners.pulling_agent`) has two more methods. `before_act(b)` is
    called before each act for the environments b, and may replace the parameters. Each act runs inside the context
    manager `acting()`. Parameters must not be replaced while any thread is inside it. Such an agent is a wrapper, and
    its attribute `wrapped` is the agent that acts.

    If an agent has the attribute `epsilon`, the runner sets it to the current value of the algorithm's schedule
    `epsilon`.
    """

    @property
    def model(self) -> nn.Module: ...

    @property
    def needs_obs(self) -> bool:
        """Whether `act` reads observations. If false, no observations are gathered and `obs` is None."""

    @property
    def reentrant(self) -> bool:
        """Whether several threads may call `act` at the same time for different environments. Otherwise the calls are
        serialized."""

    state_size: int
    """Number of values of one environment's recurrent state, or 0 for an agent without a recurrent state."""

    def act(
        self, obs: Tensor, uniform: Tensor, memory: RnnState | None, b: slice = ...
    ) -> tuple[Tensor, dict[str, Tensor]]:
        """Choose actions for the environments b. obs [N, ...], uniform [N] in [0, 1) -> (action [N] int64, values to
        record, each [N]).

        `memory` is the recurrent state at this step, or None for an agent without one. `act` advances the state in
        place.
        """

    def evaluating(self, greedy: bool = False) -> "Agent":
        """Return an agent with the same parameters that acts as in an evaluation, and greedily if `greedy` is true."""

    def state_dict(self) -> dict[str, Any]:
        """Return the state other than parameters that acting depends on, such as an exploration schedule."""

    def load_state_dict(self, state: dict[str, Any]) -> None: ...
