"""Rewards divided by the running standard deviation of the discounted return."""

import torch
from torch import Tensor, nn

from accel_rl.data.rollout import Rollout
from accel_rl.distributed.communicator import Communicator


def clipped(reward: Tensor, clip: float | None) -> Tensor:
    """Clip rewards [...] to +- clip, or return them unchanged if clip is 0."""
    return reward.clamp(-clip, clip) if clip else reward


class RewardNorm(nn.Module):
    """r / sqrt(Var[R] + 1e-8), clipped to +- 10, where R <- gamma R + r is each environment's discounted return so far
    (OpenAI baselines' VecNormalize; Gymnasium's NormalizeReward). R begins with 0 after the end of an episode, and
    after a lost life that ends the return.

    The variance is that of all R so far, of all environments and of all ranks that share batches. OpenAI baselines
    start the statistics with 1e-4 samples of variance 1, and update them at every step. In this project, the statistics
    start with the first rollout, and each rollout updates the statistics before its rewards are divided.
    """

    def __init__(self, B: int, gamma: float):
        super().__init__()
        self.gamma = gamma
        self.returns: Tensor
        self.mean: Tensor
        self.variance: Tensor
        self.count: Tensor
        self.register_buffer("returns", torch.zeros(B, dtype=torch.float64))
        for name in ("mean", "variance", "count"):
            self.register_buffer(name, torch.zeros((), dtype=torch.float64))

    def forward(self, reward: Tensor) -> Tensor:
        """Divide reward [...] by the current standard deviation. An infinite reward becomes NaN, so that updates from
        this reward are skipped."""
        scaled = reward / (self.variance + 1e-8).sqrt()
        return torch.where(scaled.isinf(), torch.nan, scaled.clamp(-10, 10))

    @torch.no_grad()
    def add(self, reward: Tensor, rollout: Rollout, communicator: Communicator) -> None:
        """Update the statistics with one rollout. Each rank calls `add` once per rollout. `reward` [T, B] has been
        clipped (--reward-clip). Skipped steps do not change R. A reward that is not finite counts as 0, because updates
        from such a reward are skipped."""
        valid, goes_on = rollout.valid, (~rollout.terminated).double()
        carry = torch.where(valid, self.gamma * (rollout.age[:-1] > 0).double(), 1)
        carry[1:] *= goes_on[:-1]
        returns, R = torch.where(valid, reward.double().nan_to_num(0, 0, 0), 0), self.returns
        for t in range(rollout.T):
            R = returns[t].addcmul_(carry[t], R)
        self.returns.copy_(R * goes_on[-1])
        # The update of Chan et al. 1979 uses sums of deviations from the previous mean, so one all-reduce is enough.
        deviation = torch.where(valid, returns - self.mean, 0)
        sums = torch.stack([valid.sum(), deviation.sum(), deviation.square().sum()])
        n, total, squares = communicator.all_reduce_sum(sums)
        count = (self.count + n).clamp(min=1)
        spread = self.variance * self.count + squares - total.square() / count
        self.variance.copy_(spread.clamp(min=0) / count)  # Rounding errors may make `spread` negative.
        self.mean.add_(total / count)
        self.count.add_(n)
