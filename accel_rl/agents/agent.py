"""The interface between samplers and agents."""

from typing import Any, Protocol

from torch import Tensor, nn

from accel_rl.data.rollout import RnnState


class Agent(Protocol):
    """`act` turns a batch of observations into actions; its randomness is an argument, one number per environment.

    An agent whose parameters another process changes (`runners.pulling_agent`) has two more methods. `before_act(b)` is
    called before each act for the environments b; it may replace the parameters. Each act happens inside the context
    `acting()`; parameters must not be replaced while any thread is inside it. Such an agent is a wrapper: `wrapped` is
    the agent that acts.

    An agent with the attribute `epsilon` explores by it: it is set to the algorithm's schedule of that name.
    """

    @property
    def model(self) -> nn.Module: ...

    @property
    def needs_obs(self) -> bool:
        """Whether `act` looks at observations. If not, none are gathered and `obs` is None."""

    @property
    def reentrant(self) -> bool:
        """Whether threads may call `act` at the same time for different environments. Otherwise they take turns."""

    state_size: int
    """Size of the recurrent state of one environment; 0 for an agent without one."""

    def act(
        self, obs: Tensor, uniform: Tensor, memory: RnnState | None, b: slice = ...
    ) -> tuple[Tensor, dict[str, Tensor]]:
        """obs [N, ...], uniform [N] in [0, 1), of the environments b -> (action [N] int64, values to record, each [N]).

        `memory` is the recurrent state at this step (None without one); `act` advances it in place.
        """

    def evaluating(self, greedy: bool = False) -> "Agent":
        """An agent with the same parameters that acts as in an evaluation (greedily, if asked)."""

    def state_dict(self) -> dict[str, Any]:
        """Return the state that acting depends on besides the parameters, such as an exploration schedule."""

    def load_state_dict(self, state: dict[str, Any]) -> None: ...
