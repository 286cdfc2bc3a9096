"""The sum tree against numpy's cumulative sum."""

import numpy as np
import pytest
import torch

from accel_rl.replays.sum_tree import SumTree


@pytest.mark.parametrize("n", [1, 5, 32, 33, 1000, 40_000])
def test_finds_what_a_running_sum_finds(n):
    rng = np.random.default_rng(n)
    weight = (rng.random(n) * (rng.random(n) < 0.7)).astype(np.float32)
    weight[rng.integers(n)] = 2.0
    tree = SumTree(n)
    tree.set(torch.arange(n), torch.from_numpy(weight))
    ends = weight.astype(np.float64).cumsum()
    assert float(tree.total) == pytest.approx(ends[-1], rel=1e-12)
    mass = np.concatenate([rng.random(2000) * ends[-1], [0.0]])
    got = tree.find(torch.from_numpy(mass)).numpy()
    np.testing.assert_array_equal(got, np.searchsorted(ends, mass, side="right"))
    assert (weight[got] > 0).all()


def test_a_mass_that_rounds_past_the_end_is_the_last_that_has_a_weight():
    tree = SumTree(100)
    tree.set(torch.tensor([3, 60]), torch.tensor([0.1, 0.2]))
    assert tree.find(tree.total[None] * (1 + 1e-9)).tolist() == [60]


def test_sums_do_not_drift():
    rng, tree, weight = np.random.default_rng(0), SumTree(5000), np.zeros(5000, np.float32)
    for i in range(300):
        if i % 3:
            at = rng.choice(5000, 64, replace=False)
            weight[at] = rng.random(64) * 10.0 ** rng.integers(-6, 6)
            tree.set(torch.from_numpy(at), torch.from_numpy(weight[at]))
        else:
            low = int(rng.integers(4900))
            high = int(rng.integers(low + 1, 5000))
            weight[low:high] = rng.random(high - low)
            tree.set_range(low, torch.from_numpy(weight[low:high]))
    fresh = SumTree(5000)
    fresh.set(torch.arange(5000), torch.from_numpy(weight))
    for a, b in zip(tree.levels, fresh.levels, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-14, atol=0)
    assert float(tree.total) == pytest.approx(weight.astype(np.float64).sum(), rel=1e-12)
