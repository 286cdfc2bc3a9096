"""n-step returns."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class NStep:
    """Settings of n-step returns (Sutton 1988; Hessel et al. 2018). gamma: discount per step. Rewards are clipped to
    +- reward_clip; 0: no clipping."""

    n: int = 1
    gamma: float = 0.99
    reward_clip: float = 1.0
