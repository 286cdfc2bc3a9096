"""For each of several epochs, the samples of one rollout are shuffled and divided into minibatches."""

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from accel_rl.data.rollout import Rollout
from accel_rl.distributed.communicator import SINGLE_PROCESS, Communicator


@dataclass(frozen=True)
class Minibatches:
    """Draws each valid sample (step t of environment b) of a rollout once per epoch.

    `size` is the number of samples of one minibatch, summed over the ranks that share the minibatch. If `size` does not
    divide the rollout, the minibatches are smaller than `size` and of nearly equal size. All ranks make the same number
    of minibatches.
    """

    epochs: int
    size: int

    def draw(
        self, rollout: Rollout, communicator: Communicator = SINGLE_PROCESS, sequences: bool = False
    ) -> Iterator[Tensor]:
        """The indices t * B + b [N] of the samples in each minibatch, on the rollout's device. If `sequences` is true,
        yield indices b [n] of environments instead, so that the steps of an environment stay together for recurrent
        agents. No minibatch is drawn if any rank's rollout has no valid sample."""
        device = rollout.action.device
        valid = None if sequences or rollout.is_whole else rollout.valid_cells()
        if sequences:
            units, cells_each = rollout.B, rollout.T
        else:
            units, cells_each = rollout.T * rollout.B if valid is None else len(valid), 1
        samples = int(communicator.all_reduce_sum(torch.tensor(units * cells_each)))
        fewest = communicator.all_reduce_min(units)
        if not fewest:
            return
        count = max(1, min(-(-samples // self.size), fewest))
        for order in [torch.randperm(units, device=device) for _ in range(self.epochs)]:
            yield from (order if valid is None else valid[order]).tensor_split(count)
