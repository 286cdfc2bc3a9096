"""The compiled kernels draw the same actions as plain torch operations from the same random numbers."""

import math

import pytest
import torch

from accel_rl.kernels import actions, native
from accel_rl.ops.policy_loss import log_prob

pytestmark = pytest.mark.skipif(native.compiled() is None, reason="no compiler built the kernels")


def test_samples_are_those_of_the_equation(monkeypatch):
    g = torch.Generator().manual_seed(3)
    logits = 5 * torch.randn(4000, 18, generator=g)
    logits[::7, 3] = -math.inf  # never
    logits, uniform = logits[:, :9], torch.rand(4000, generator=g)  # not in one piece
    got = actions.sample_categorical(logits, uniform)
    monkeypatch.setattr(native, "compiled", lambda: None)
    want = actions.sample_categorical(logits, uniform)
    # Rounding may change an action if its random number is near the boundary between two actions.
    assert (got[0] != want[0]).float().mean() < 1e-3
    torch.testing.assert_close(got[1], log_prob(logits, got[0]), rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(want[1], log_prob(logits, want[0]))
    assert (got[0][::7] != 3).all()


@pytest.mark.parametrize(
    "epsilon", [torch.tensor(0.0), torch.tensor(0.37), torch.tensor(1.0), torch.linspace(0, 1, 500)]
)
def test_epsilon_greedy_actions_are_those_of_the_equation(epsilon):
    q, uniform = torch.randn(500, 7), torch.rand(500)
    q[::5] = q[::5].round()  # with ties
    q[3, 4] = q[9, 2] = q[9, 5] = float("nan")
    uniform[:3] = torch.tensor([0.0, 1 - 2**-24, 0.37])
    anything = (uniform / epsilon * 7).long().clamp_(max=6)
    want = torch.where(uniform < epsilon, anything, q.argmax(-1))
    assert torch.equal(actions.epsilon_greedy(q, uniform, epsilon), want)
    assert torch.equal(actions.epsilon_greedy(q.double(), uniform, epsilon), want)


def test_the_largest_value_is_that_of_each_row():
    q = torch.randn(50, 7)
    q[3, 4] = q[9, 0] = q[9, 5] = float("nan")
    want = q.amax(-1)
    for x in (q, q.t().contiguous().t(), q.double()):
        assert torch.equal(actions.largest_value(x).float().nan_to_num(100.0), want.nan_to_num(100.0))
    assert actions.largest_value(q.requires_grad_()).requires_grad


def test_samples_at_the_edges():
    logits = torch.log(torch.tensor([[0.25, 0.75]])).expand(3, 2)
    assert actions.sample_categorical(logits, torch.tensor([0.0, 0.2499, 0.2501]))[0].tolist() == [0, 0, 1]
    many = torch.zeros(1, 18).expand(2, 18)
    assert actions.sample_categorical(many, torch.tensor([0.0, 1 - 2**-24]))[0].tolist() == [0, 17]
