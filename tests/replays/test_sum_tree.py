"""The sum tree finds the same indices as numpy's cumulative sum."""

import numpy as np
import pytest
import torch

from accel_rl.replays.prioritized import SumTree


@pytest.mark.parametrize("fanout", [2, 32, 1024])
@pytest.mark.parametrize("n", [1, 5, 32, 33, 1000, 40_000])
def test_finds_what_a_running_sum_finds(n, fanout):
    rng = np.random.default_rng(n)
    weight = (rng.random(n) * (rng.random(n) < 0.7)).astype(np.float32)
    weight[rng.integers(n)] = 2.0
    tree = SumTree(n, fanout=fanout)
    tree.set(torch.arange(n), torch.from_numpy(weight))
    ends = weight.astype(np.float64).cumsum()
    assert float(tree.total) == pytest.approx(ends[-1], rel=1e-12)
    mass = np.concatenate([rng.random(2000) * ends[-1], [0.0]])
    got = tree.find(torch.from_numpy(mass)).numpy()
    np.testing.assert_array_equal(got, np.searchsorted(ends, mass, side="right"))
    assert (weight[got] > 0).all()


def test_a_million_weights_need_two_levels_on_a_gpu_and_four_on_a_cpu():
    assert len(SumTree(1_000_000, "meta").levels) == 2 and len(SumTree(1_000_000).levels) == 4


@pytest.mark.parametrize("fanout", [32, 1024])
def test_it_never_finds_an_index_without_a_weight(fanout):
    """`find` never returns an index whose weight is zero, although rounding may move the searched value past a sum."""
    tree = SumTree(3000, fanout=fanout)
    at = torch.arange(0, 3000, 7)
    tree.set(at, torch.rand(len(at)))
    ends = tree[slice(0, 3000)].double().cumsum(0)
    near = torch.cat([ends, ends * (1 - 1e-16), ends * (1 + 1e-16), ends * (1 + 1e-15)])
    assert (tree[tree.find(near)] > 0).all()


def test_the_levels_of_another_fan_out():
    a, b = SumTree(5000, fanout=32), SumTree(5000, fanout=1024)
    a.set_range(0, torch.rand(5000))
    b.load(a.levels)
    assert torch.equal(a[slice(0, 5000)], b[slice(0, 5000)])
    torch.testing.assert_close(a.total, b.total, rtol=1e-14, atol=0)


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
