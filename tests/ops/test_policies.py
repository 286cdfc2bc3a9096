"""Log probabilities, entropies and samples of actions equal those of torch.distributions."""

import numpy as np
import pytest
import torch
from torch import distributions as D

from accel_rl.ops.policies import Categorical, Factorized, Gaussian, Policy, independent

N = 20_000


def uniform(n: int = N) -> torch.Tensor:
    # Like the samplers' random numbers, those of torch.rand are multiples of 2^-24.
    return torch.rand(n, generator=torch.Generator().manual_seed(0))


def reference(policy: Policy, outputs: torch.Tensor) -> list[D.Distribution]:
    """Return independent torch distributions, one for each component of an action."""
    if isinstance(policy, Gaussian):
        mean, log_deviation = outputs.chunk(2, -1)
        return [D.Normal(m, s.exp()) for m, s in zip(mean.unbind(-1), log_deviation.unbind(-1), strict=True)]
    sizes = policy.choices if isinstance(policy, Factorized) else [policy.heads]
    return [D.Categorical(logits=x) for x in outputs.split(sizes, -1)]


@pytest.mark.parametrize("policy", [Categorical(5), Factorized([3, 2, 4]), Gaussian([(-1, 1), (0, 3)])])
def test_log_probabilities_and_entropies(policy):
    g = torch.Generator().manual_seed(1)
    outputs = torch.randn(7, 50, policy.heads + policy.deviations, generator=g, dtype=torch.float64)
    action = policy.sample(outputs.flatten(0, 1), uniform(350)).unflatten(0, (7, 50))
    parts = reference(policy, outputs)
    numbers = [action] if action.dim() == 2 else action.unbind(-1)
    torch.testing.assert_close(
        policy.log_prob(outputs, action), sum(d.log_prob(a) for d, a in zip(parts, numbers, strict=True))
    )
    torch.testing.assert_close(policy.entropy(outputs), sum(d.entropy() for d in parts))
    best = policy.log_prob(outputs, policy.mode(outputs))
    assert (best >= policy.log_prob(outputs, action)).all()


def test_samples_of_a_gaussian():
    policy = Gaussian([(-1, 1), (0, 3)])
    outputs = torch.tensor([1.0, -2.0, 0.5, -1.0]).expand(N, -1)
    action = policy.sample(outputs, uniform())
    assert action.dtype == torch.float32
    np.testing.assert_allclose(action.mean(0), [1, -2], atol=0.04)
    np.testing.assert_allclose(action.std(0), np.exp([0.5, -1]), rtol=0.02)
    assert abs(np.corrcoef(action.T)[0, 1]) < 0.03
    z = (action - torch.tensor([1.0, -2.0])) / torch.tensor([0.5, -1.0]).exp()
    # 68.27 % and 95.45 % of a normal distribution lie within one and two standard deviations.
    for k, share in ((1, 0.6827), (2, 0.9545)):
        assert abs(float((z.abs() < k).float().mean()) - share) < 0.01


def test_samples_of_choices():
    policy = Factorized([3, 2])
    p = torch.tensor([0.2, 0.5, 0.3]), torch.tensor([0.9, 0.1])
    action = policy.sample(torch.cat(p).log().expand(N, -1), uniform())
    joint = torch.bincount(2 * action[:, 0] + action[:, 1], minlength=6).view(3, 2) / N
    torch.testing.assert_close(joint, p[0][:, None] * p[1], atol=0.01, rtol=0)


@pytest.mark.parametrize(
    ("policy", "least", "most"), [(Factorized([3, 2]), [0, 0], [2, 1]), (Gaussian([(-1, 5), (0, 1)]), [-1, 0], [5, 1])]
)
def test_random_actions_fill_their_ranges(policy, least, most):
    action = policy.random(uniform()).double()
    np.testing.assert_allclose(action.amin(0), least, atol=1e-2)
    np.testing.assert_allclose(action.amax(0), most, atol=1e-2)
    np.testing.assert_allclose(action.mean(0), np.add(least, most) / 2, atol=0.05)
    assert abs(np.corrcoef(action.T)[0, 1]) < 0.03


def test_numbers_from_one_number_are_independent():
    x = independent(uniform(), 4)
    assert x.shape == (N, 4) and ((x > 0) & (x < 1)).all()
    correlations = np.corrcoef(np.vstack([x.T, uniform()])) - np.eye(5)
    assert np.abs(correlations).max() < 0.03
