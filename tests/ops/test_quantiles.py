"""The quantile Huber loss equals float64 sums over all pairs, and Munchausen's target a float64 loop over actions."""

import math

import numpy as np
import pytest
import torch

from accel_rl.ops.q_learning import LEAST_LOG_POLICY, scaled_log_policy, soft_target
from accel_rl.ops.quantiles import midpoints, quantile_huber

BATCHES = 200


def pairs(target, quantiles, tau, kappa):
    """Return the losses [N] of Dabney et al. 2018, eq. 8 to 10, and their derivatives [N, Z] by the quantiles, in
    float64."""
    u = target[:, None, :] - quantiles[:, :, None]
    size = np.abs(u)
    huber = np.where(size <= kappa, u**2 / 2, kappa * (size - kappa / 2)) / kappa if kappa else size
    slope = -np.clip(u, -kappa, kappa) / kappa if kappa else -np.sign(u)
    share = np.abs(tau[:, :, None] - (u < 0))
    return (share * huber).mean(-1).sum(-1), (share * slope).mean(-1)


@pytest.mark.parametrize("kappa", [1.0, 0.3, 5.0, 0.0])
def test_the_loss_and_its_slope_are_those_of_all_pairs(kappa):
    worst = 0.0
    for seed in range(BATCHES):
        g = torch.Generator().manual_seed(seed)
        N, Z, M = (int(torch.randint(1, most, (), generator=g)) for most in (9, 40, 40))
        scale, shift = 10 ** float(torch.randn((), generator=g)), 100 * float(torch.randn((), generator=g))
        target, quantiles = (scale * torch.randn(N, n, generator=g) + shift for n in (M, Z))
        if seed % 3 == 0:  # After rounding, many quantiles equal a target.
            target, quantiles = target.round(), quantiles.round()
        tau = midpoints(Z, target.device).expand(N, Z) if seed % 2 else torch.rand(N, Z, generator=g)
        x = quantiles.clone().requires_grad_()
        loss = quantile_huber(target, x, tau, kappa)
        weight = torch.rand(N, generator=g)
        loss.backward(weight)
        numbers = (n.double().numpy() for n in (target, quantiles, tau))
        want, slope = pairs(*numbers, kappa)
        slope = slope * weight.double().numpy()[:, None]
        np.testing.assert_allclose(loss.detach().numpy(), want, rtol=2e-6, atol=1e-6 * scale)
        np.testing.assert_allclose(x.grad.numpy(), slope, rtol=2e-5, atol=2e-6)
        worst = max(worst, np.abs(x.grad.numpy() - slope).max())
    assert 0 < worst < 1e-5, worst


def test_a_common_share_is_that_of_every_row():
    target, quantiles, tau = torch.randn(4, 6), torch.randn(4, 5), midpoints(5, torch.device("cpu"))
    same = quantile_huber(target, quantiles, tau.expand(4, 5), 1.0)
    assert torch.equal(quantile_huber(target, quantiles, tau, 1.0), same)


def test_munchausens_target_is_the_papers():
    """The test computes eq. 1 of Vieillard et al. 2020 in loops. Action values differ by up to 1,000 temperatures."""
    for seed in range(BATCHES):
        g = torch.Generator().manual_seed(seed)
        N, A, temperature = 4, int(torch.randint(2, 19, (), generator=g)), (0.03, 1.0)[seed % 2]
        q, q_t, outputs_t = (10 * torch.randn(N, A, generator=g) for _ in range(3))
        r, discount = torch.randn(N, generator=g), torch.rand(N, generator=g)
        action = torch.randint(A, (N,), generator=g)
        bonus = 0.9 * scaled_log_policy(q, temperature).gather(1, action[:, None])[:, 0].clamp(min=LEAST_LOG_POLICY)
        reward, value = soft_target(r, discount, q_t, outputs_t, temperature, bonus)
        for n in range(N):
            want = float(r[n]) + 0.9 * max(-1.0, log_policy(q[n], temperature)[action[n]])
            for a, log_pi in enumerate(log_policy(q_t[n], temperature)):
                pi = math.exp(log_pi / temperature)
                want += float(discount[n]) * pi * (float(outputs_t[n, a]) - log_pi)
            assert float(reward[n] + discount[n] * value[n]) == pytest.approx(want, rel=1e-5, abs=1e-4)


def log_policy(q, temperature):
    """temperature * ln softmax(q / temperature) [A] in float64."""
    x = q.double().numpy()
    top = x.max()
    return x - top - temperature * math.log(sum(math.exp((y - top) / temperature) for y in x))
