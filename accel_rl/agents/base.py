"""What a sampler asks of an agent."""

from typing import Any, Protocol

from torch import Tensor, nn

from accel_rl.data.memory import Memory


class Agent(Protocol):
    """`act` turns a batch of observations into actions; the randomness comes from outside, one number a step."""

    @property
    def model(self) -> nn.Module: ...

    @property
    def observes(self) -> bool:
        """False: it acts without looking, and its observations (`obs` is None then) are not even put together."""

    @property
    def reentrant(self) -> bool:
        """Whether `act` may be called from several threads at once, for different environments: it changes nothing of
        its own. Else one waits for the other."""

    state_size: int
    """Floats that the agent remembers per environment from step to step; 0: it has no memory."""

    def act(
        self, obs: Tensor, uniform: Tensor, memory: Memory | None, b: slice = ...
    ) -> tuple[Tensor, dict[str, Tensor]]:
        """obs [N, ...], uniform [N] in [0, 1), of the environments b -> (action [N] int64, what to record, each [N]).

        `memory` (None without one) is of one step; its state is brought on in place.
        """

    def evaluating(self, greedy: bool = False) -> "Agent":
        """The same parameters, acting as in an evaluation (greedily, if asked)."""

    def state_dict(self) -> dict[str, Any]:
        """What acting depends on beside the parameters (an exploration schedule, say)."""

    def load_state_dict(self, state: dict[str, Any]) -> None: ...
