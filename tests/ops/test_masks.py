"""Masks of actions in observations."""

import numpy as np
import torch

from accel_rl.ops.masks import LEAST, allowed, masked, random_allowed

MASKS = torch.tensor([[1, 0, 1, 1], [0, 0, 0, 1], [0, 0, 0, 0]])


def test_the_last_numbers_of_an_observation_are_the_mask():
    # If a mask allows no action, all actions count as allowed.
    known = torch.tensor([[1, 0, 1, 1], [0, 0, 0, 1], [1, 1, 1, 1]]).bool()
    floats = torch.cat([torch.randn(3, 5), MASKS.float()], 1)
    assert torch.equal(allowed(floats, 4), known)
    picture = torch.randint(256, (3, 7), dtype=torch.uint8)
    frames = torch.cat([picture, torch.from_numpy(MASKS.float().numpy().view(np.uint8))], 1)
    assert torch.equal(allowed(frames, 4), known)
    x = torch.randn(3, 4)
    assert torch.equal(masked(x, floats, 4), torch.where(known, x, LEAST)) and masked(x, floats, 0) is x


def test_random_actions_are_allowed_and_equally_likely():
    uniform = torch.rand(30_000, generator=torch.Generator().manual_seed(0))
    uniform[:2] = torch.tensor([0.0, 1 - 2**-24])
    for mask in MASKS[:2].bool():
        action = random_allowed(uniform, mask.expand(len(uniform), -1))
        share = torch.bincount(action, minlength=4) / len(uniform)
        torch.testing.assert_close(share, mask / mask.sum(), atol=0.01, rtol=0)
