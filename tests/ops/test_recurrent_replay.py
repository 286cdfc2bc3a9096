"""The equations of recurrent replay equal loops in float64."""

import math

import numpy as np
import pytest
import torch

from accel_rl.ops.recurrent_replay import mixed_priority, n_step_return, rescaled, unscaled
from tests.algos import oracle


@pytest.mark.parametrize("epsilon", [1e-3, 1e-2, 0.0])
def test_values_are_rescaled_by_pohlen_et_al(epsilon):
    x = torch.cat([torch.zeros(1), 10.0 ** torch.linspace(-4, 5, 91)])
    x = torch.cat([x, -x])
    expected = np.array([oracle.rescaled(v, epsilon) for v in x.tolist()])
    np.testing.assert_allclose(rescaled(x.double(), epsilon).numpy(), expected, rtol=1e-12, atol=1e-15)
    inverse = np.array([oracle.unscaled(v, epsilon) for v in x[:60].tolist()])
    np.testing.assert_allclose(unscaled(x[:60].double(), epsilon).numpy(), inverse, rtol=1e-9, atol=1e-12)
    torch.testing.assert_close(unscaled(rescaled(x.double(), epsilon), epsilon), x.double(), rtol=1e-9, atol=1e-10)
    # In float32, the formula of Pohlen et al. for the inverse of the rescaling would lose digits.
    torch.testing.assert_close(unscaled(x, epsilon), unscaled(x.double(), epsilon).float(), rtol=2e-6, atol=1e-6)


def test_returns_are_those_of_a_loop():
    worst = 0.0
    for seed in range(200):
        rng = np.random.default_rng(seed)
        n, T, N = int(rng.integers(1, 6)), int(rng.integers(6, 12)), 3
        reward, value = rng.normal(size=(2, T, N))
        terminated, cut = rng.random((2, T, N)) < 0.15
        ends = terminated | cut
        reward[-1, 0] = math.nan if ends[T - n : -1, 0].any() and n > 1 else 0.0
        gamma = rng.choice([0.9, 0.997, 0.0])
        got = n_step_return(*(torch.from_numpy(x) for x in (reward, gamma * ~terminated, value, ends)), n).numpy()
        assert got.shape == (T - n + 1, N)
        for t in range(T - n + 1):
            for i in range(N):
                total, discount = 0.0, 1.0
                for k in range(n):
                    total += discount * reward[t + k, i]
                    discount *= gamma * (not terminated[t + k, i])
                    if ends[t + k, i]:
                        break
                expected = total + discount * value[t + k, i]
                if not math.isnan(expected):
                    worst = max(worst, abs(got[t, i] - expected))
    assert worst < 1e-12


def test_priorities_mix_the_largest_and_the_mean_error():
    for seed in range(200):
        rng = np.random.default_rng(seed)
        error, mask, eta = rng.normal(size=(7, 4)), rng.random((7, 4)) < 0.7, rng.random()
        mask[:, 0] = seed % 2 == 0
        got = mixed_priority(torch.from_numpy(error), torch.from_numpy(mask), eta).numpy()
        for i in range(4):
            sizes = [abs(e) for e, m in zip(error[:, i], mask[:, i], strict=True) if m]
            expected = eta * max(sizes) + (1 - eta) * sum(sizes) / len(sizes) if sizes else 0.0
            assert got[i] == pytest.approx(expected, abs=1e-12)
