import math
import random
import statistics

import pytest

from accel_rl.gorila.sharded_sync import SHARE, WARM_UP, OutlierGuard


def usual(i):
    return 1.0 + 0.1 * math.sin(i)


def after(n, k=4.0):
    guard = OutlierGuard(k)
    assert not any(guard.is_outlier(usual(i)) for i in range(n))
    return guard


def test_mean_and_deviation_are_those_of_the_first_losses():
    guard, losses = after(WARM_UP), [usual(i) for i in range(WARM_UP)]
    assert guard._mean == pytest.approx(statistics.fmean(losses))
    assert guard._variance == pytest.approx(statistics.pvariance(losses))


def test_later_ones_count_exponentially_less():
    n = 20 * round(1 / SHARE)
    guard = after(n)
    weights = [SHARE * (1 - SHARE) ** (n - 1 - i) for i in range(n)]
    mean = sum(w * usual(i) for i, w in enumerate(weights)) / sum(weights)
    square = sum(w * usual(i) ** 2 for i, w in enumerate(weights)) / sum(weights)
    assert guard._mean == pytest.approx(mean, rel=1e-6)
    assert guard._variance == pytest.approx(square - mean**2, rel=1e-5)


@pytest.mark.parametrize("sign", [1, -1])
def test_what_is_above_the_bound_is_an_outlier(sign):
    guard = after(500)
    bound = guard._mean + 4 * guard._variance**0.5
    state = guard.state_dict()
    assert guard.is_outlier(sign * (bound + 1e-6))
    guard.load_state_dict(state)
    assert not guard.is_outlier(sign * (bound - 1e-6))
    guard.load_state_dict(state)
    assert not guard.is_outlier(0.0)  # small losses are welcome


def test_none_is_an_outlier_at_first_or_with_no_bound():
    guard = OutlierGuard(4.0)
    assert not any(guard.is_outlier(10.0**i) for i in range(WARM_UP - 1))
    guard = after(500, k=0.0)
    assert not guard.is_outlier(1e30)


def test_a_lasting_change_becomes_the_usual():
    guard = after(500)
    found = [guard.is_outlier(100 * usual(i)) for i in range(300)]
    assert found[0] and not any(found[100:])


def test_losses_that_never_change_do_not_block_what_follows():
    guard = OutlierGuard(4.0)
    for _ in range(500):
        assert not guard.is_outlier(0.0)
    found = [guard.is_outlier(usual(i)) for i in range(100)]
    assert found[0] and not any(found[60:])


def test_what_one_reward_can_add_is_no_outlier():
    """The loss of a batch of 8 from Pong in which one point is won is no outlier, although other batches have small
    losses."""
    losses = [0.01 + 0.004 * math.sin(i) for i in range(2_000)]
    won = 1.5 / 8
    for usual, found in ((0.0, True), (1.5 / 8, False)):
        guard = OutlierGuard(5.0, usual)
        assert not any(guard.is_outlier(x) for x in losses)
        assert guard.is_outlier(won) == found
    assert guard.is_outlier(2 * won), "two of them"


def test_the_bound_is_steady():
    """The bound above which a loss is an outlier changes little with the last few losses."""
    rng = random.Random(0)
    guard = OutlierGuard(5.0)
    bounds = []
    for i in range(6_000):
        guard.is_outlier(rng.expovariate(50) + (0.1 if rng.random() < 0.02 else 0.0))
        if i > 2_000:
            bounds.append(guard.bound)
    assert max(bounds) < 1.4 * min(bounds)
