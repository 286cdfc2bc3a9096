"""The state of a recurrent agent."""

from dataclasses import dataclass

from torch import Tensor


@dataclass(slots=True)
class RnnState:
    """Recurrent states of n environments over T steps.

    state [n, Z]: the state before the first step. first [T, n] bool: an episode begins at this step, so the state is
    reset before it. `act` advances `state` in place.
    """

    state: Tensor
    first: Tensor
