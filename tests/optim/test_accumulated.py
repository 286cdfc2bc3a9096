"""Accumulated updates against appendix A of Stooke & Abbeel 2018, computed gradient by gradient."""

import pytest
import torch

from accel_rl.optim.accumulated import Point, add_, between
from accel_rl.optim.optimizers import Adam
from tests.gorila.made_up import OPTIMIZERS

SIZE, N = 200, 7


def point_of(data, optimizer):
    return Point(data, optimizer.state_dict())


def gradients(seed, n=N):
    g = torch.Generator().manual_seed(seed)
    return [torch.randn(SIZE, generator=g) for _ in range(n)]


def train(data, optimizer, grads):
    for g in grads:
        optimizer.step(data, g.clone(), 1e-2)


def test_sums_of_appendix_a():
    data, adam = torch.zeros(SIZE), Adam(SIZE, epsilon=1e-5)
    train(data, adam, gradients(0))
    before = point_of(data, adam).copy()
    a_g, a_g2, a_s = (torch.zeros(SIZE, dtype=torch.float64) for _ in range(3))
    for g in gradients(1):
        old = data.double()
        train(data, adam, [g])
        a_g, a_g2 = adam.beta_1 * a_g + g, adam.beta_2 * a_g2 + g.double() ** 2
        a_s += old - data.double()
    got = between(before, point_of(data, adam), N, adam.decay)
    close = {"atol": 1e-6, "rtol": 1e-4}
    torch.testing.assert_close(got.step.double(), a_s, **close)
    torch.testing.assert_close(got.added["mean"].double(), (1 - adam.beta_1) * a_g, **close)
    torch.testing.assert_close(got.added["square"].double(), (1 - adam.beta_2) * a_g2, **close)


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_added_to_where_they_began_they_lead_to_where_they_ended(name):
    data, optimizer = torch.zeros(SIZE), OPTIMIZERS[name](SIZE)
    train(data, optimizer, gradients(0))
    before = point_of(data, optimizer).copy()
    train(data, optimizer, gradients(1))
    after, start = point_of(data, optimizer), before.copy()
    numbers = add_(start, between(before, after, N, optimizer.decay), optimizer.decay)
    torch.testing.assert_close(start.parameters, after.parameters)
    for key, x in after.optimizer.items():
        if isinstance(x, torch.Tensor):
            torch.testing.assert_close(start.optimizer[key], x)
        else:
            assert numbers[key] == x == 2 * N
    assert set(optimizer.decay) == {k for k, x in after.optimizer.items() if isinstance(x, torch.Tensor)}


def test_averages_of_squares_do_not_fall_below_zero():
    adam = Adam(SIZE)
    adam.square.fill_(0.3)
    before = point_of(torch.zeros(SIZE), adam).copy()
    train(torch.zeros(SIZE), adam, [torch.zeros(SIZE)] * 5)
    got = between(before, point_of(torch.zeros(SIZE), adam), 5, adam.decay)
    other = Point(torch.zeros(SIZE), {"mean": torch.zeros(SIZE), "square": torch.zeros(SIZE), "steps": 0})
    add_(other, got, adam.decay)
    assert (other.optimizer["square"] >= 0).all()
