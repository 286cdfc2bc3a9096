"""Returns of transitions over several steps."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class NStep:
    """Transitions over `n` steps (Sutton 1988; Hessel et al. 2018): discount per step, rewards clipped to
    +- reward_clip (0: not at all)."""

    n: int = 1
    gamma: float = 0.99
    reward_clip: float = 1.0
