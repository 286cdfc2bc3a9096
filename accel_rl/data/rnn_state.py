"""What a recurrent agent carries from step to step."""

from dataclasses import dataclass

from torch import Tensor


@dataclass(slots=True)
class RnnState:
    """The memory of n environments over T steps.

    state [n, Z]: as the step before the first left it. first [T, n] bool: an episode opens there, what was before is
    forgotten. Acting goes on from `state` in place.
    """

    state: Tensor
    first: Tensor
