import math

import torch

from accel_rl.ops.policy_loss import (
    clipped_surrogate,
    entropy,
    explained_variance,
    log_prob,
    mean_over,
    sample_categorical,
)


def test_log_prob_and_entropy_equal_the_distributions():
    logits = torch.randn(7, 4, generator=torch.Generator().manual_seed(0))
    action = torch.arange(7) % 4
    d = torch.distributions.Categorical(logits=logits)
    torch.testing.assert_close(log_prob(logits, action), d.log_prob(action))
    torch.testing.assert_close(entropy(logits), d.entropy())


def test_samples_follow_the_probabilities():
    p = torch.tensor([0.5, 0.2, 0.0, 0.3])
    n = 100_000
    logits = p.clamp(min=1e-30).log().expand(n, 4)
    action = sample_categorical(logits, torch.rand(n, generator=torch.Generator().manual_seed(1)))
    share = torch.bincount(action, minlength=4) / n
    assert share[2] == 0
    assert (share - p).abs().max() < 4 * math.sqrt(0.25 / n)


def test_samples_at_the_edges():
    logits = torch.log(torch.tensor([[0.25, 0.75]])).expand(3, 2)
    assert sample_categorical(logits, torch.tensor([0.0, 0.2499, 0.2501])).tolist() == [0, 0, 1]
    many = torch.zeros(1, 18).expand(2, 18)
    assert sample_categorical(many, torch.tensor([0.0, 1 - 2**-24])).tolist() == [0, 17]


def test_the_mean_ignores_whatever_is_not_valid():
    x = torch.tensor([1.0, float("nan"), 3.0], requires_grad=True)
    valid = torch.tensor([True, False, True])
    mean = mean_over(valid)(x)
    mean.backward()
    assert mean.item() == 2.0
    assert x.grad is not None and x.grad.tolist() == [0.5, 0.0, 0.5]
    assert mean_over(torch.zeros(3, dtype=torch.bool))(x).item() == 0.0


def test_explained_variance_is_one_minus_a_ratio_of_variances():
    value, target = torch.randn(3, 5), torch.randn(3, 5)
    valid = torch.rand(3, 5) < 0.7
    for cells in (None, valid):
        v, r = (x.flatten() if cells is None else x[cells] for x in (value, target))
        want = 1 - (r - v).var(unbiased=False) / r.var(unbiased=False)
        torch.testing.assert_close(explained_variance(value, target, mean_over(cells)), want)
    assert explained_variance(value, target * 0, torch.mean) == 0
    assert explained_variance(target, target, torch.mean) == 1


def slow_surrogate(ratio, advantage, clip):
    """Return min(rho A, clip(rho) A) and its derivative by rho, with rho = `ratio` and A = `advantage`."""
    objective, bound = (rho * advantage for rho in (ratio, min(max(ratio, 1 - clip), 1 + clip)))
    return (bound, 0.0) if bound < objective else (objective, advantage)


def test_the_surrogate_and_its_gradient_are_those_of_the_smaller_term():
    """No tested ratio is one of the clip bounds 0.8 and 1.2, at which the derivative is not unique."""
    cells = [
        (ratio, advantage)
        for ratio in (0.0, 0.5, 0.79, 0.81, 0.9, 1.0, 1.1, 1.19, 1.21, 1.5, math.inf)
        for advantage in (1.5, -0.7, 0.0)
        if advantage or ratio < math.inf  # The pair (inf, 0) is omitted: its product is NaN.
    ]
    ratio, advantage = torch.tensor(cells, dtype=torch.float64).unbind(1)
    ratio.requires_grad_()
    found = clipped_surrogate(ratio, advantage, 0.2)
    found.sum().backward()
    expected, gradient = torch.tensor([slow_surrogate(*cell, 0.2) for cell in cells], dtype=torch.float64).unbind(1)
    torch.testing.assert_close(found.detach(), expected)
    assert ratio.grad is not None
    torch.testing.assert_close(ratio.grad, gradient)
    at_bounds = torch.tensor([0.8, 1.2])
    assert torch.equal(clipped_surrogate(at_bounds, torch.ones(2), 0.2), at_bounds)
    assert clipped_surrogate(torch.tensor(math.nan), torch.tensor(1.0), 0.2).isnan()
