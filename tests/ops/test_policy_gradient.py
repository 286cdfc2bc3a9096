import math

import pytest
import torch

from accel_rl.kernels import actions, native
from accel_rl.ops.policy_gradient import entropy, log_prob, masked_mean, sample_categorical

draws = pytest.mark.parametrize(
    "draw",
    [sample_categorical, lambda logits, uniform: actions.sample_categorical(logits, uniform)[0]],
    ids=["by operations", "compiled"],
)


def test_log_prob_and_entropy_equal_the_distributions():
    logits = torch.randn(7, 4, generator=torch.Generator().manual_seed(0))
    action = torch.arange(7) % 4
    d = torch.distributions.Categorical(logits=logits)
    torch.testing.assert_close(log_prob(logits, action), d.log_prob(action))
    torch.testing.assert_close(entropy(logits), d.entropy())


@draws
def test_samples_follow_the_probabilities(draw):
    p = torch.tensor([0.5, 0.2, 0.0, 0.3])
    n = 100_000
    logits = p.clamp(min=1e-30).log().expand(n, 4)
    action = draw(logits, torch.rand(n, generator=torch.Generator().manual_seed(1)))
    share = torch.bincount(action, minlength=4) / n
    assert share[2] == 0
    assert (share - p).abs().max() < 4 * math.sqrt(0.25 / n)


@draws
def test_samples_at_the_edges(draw):
    logits = torch.log(torch.tensor([[0.25, 0.75]])).expand(3, 2)
    assert draw(logits, torch.tensor([0.0, 0.2499, 0.2501])).tolist() == [0, 0, 1]
    many = torch.zeros(1, 18).expand(2, 18)
    assert draw(many, torch.tensor([0.0, 1 - 2**-24])).tolist() == [0, 17]


def test_one_call_chooses_what_the_operations_do(monkeypatch):
    g = torch.Generator().manual_seed(3)
    logits = 5 * torch.randn(4000, 18, generator=g)
    logits[::7, 3] = -math.inf  # never
    logits, uniform = logits[:, :9], torch.rand(4000, generator=g)  # not in one piece
    got = actions.sample_categorical(logits, uniform)
    monkeypatch.setattr(native, "compiled", lambda: None)
    want = actions.sample_categorical(logits, uniform)
    assert (got[0] != want[0]).float().mean() < 1e-3  # on the edge of two, by rounding
    torch.testing.assert_close(got[1], log_prob(logits, got[0]), rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(want[1], log_prob(logits, want[0]))
    assert (got[0][::7] != 3).all()


def test_masked_mean_ignores_whatever_is_not_valid():
    x = torch.tensor([1.0, float("nan"), 3.0], requires_grad=True)
    valid = torch.tensor([True, False, True])
    mean = masked_mean(x, valid)
    mean.backward()
    assert mean.item() == 2.0
    assert x.grad is not None and x.grad.tolist() == [0.5, 0.0, 0.5]
    assert masked_mean(x, torch.zeros(3, dtype=torch.bool)).item() == 0.0
