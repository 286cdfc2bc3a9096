import pytest
import torch

from accel_rl.ops.returns import discounted_return, generalized_advantage, vtrace


def slow_advantage(reward, value, discount, bootstrap, next_value, lambda_, cut):
    """Schulman et al. 2016, eq. 11: A_t = sum over l of (product over t <= k < t+l of discount_k lambda) delta_{t+l}"""
    T, B = reward.shape
    out = torch.zeros(T, B)
    for b in range(B):
        for t in range(T):
            weight = 1.0
            for k in range(t, T):
                following = next_value[k, b]
                delta = reward[k, b] + discount[k, b] * following - value[k, b]
                out[t, b] += weight * delta
                if cut[k, b]:
                    break
                weight *= float(discount[k, b]) * lambda_
    return out


@pytest.mark.parametrize("lambda_", [0.0, 0.5, 0.95, 1.0])
@pytest.mark.parametrize("T", [1, 2, 7])
def test_advantage_equals_the_sum(T, lambda_):
    g = torch.Generator().manual_seed(T)
    B = 5
    reward, value = torch.randn(T, B, generator=g), torch.randn(T, B, generator=g)
    terminated = torch.rand(T, B, generator=g) < 0.2
    cut = (torch.rand(T, B, generator=g) < 0.2) & ~terminated
    discount = 0.97 * (~terminated).float()
    bootstrap = torch.randn(B, generator=g)
    next_value = torch.cat([value[1:], bootstrap[None]])
    next_value[cut] = torch.randn(int(cut.sum()), generator=g)
    got = generalized_advantage(reward, value, discount, bootstrap, next_value, lambda_, cut)
    torch.testing.assert_close(got, slow_advantage(reward, value, discount, bootstrap, next_value, lambda_, cut))


def test_lambda_one_is_the_n_step_return_minus_the_value():
    g = torch.Generator().manual_seed(0)
    reward, value, bootstrap = (
        torch.randn(6, 3, generator=g),
        torch.randn(6, 3, generator=g),
        torch.randn(3, generator=g),
    )
    discount = torch.full((6, 3), 0.9)
    discount[2, 1] = 0
    advantage = generalized_advantage(reward, value, discount, bootstrap)
    torch.testing.assert_close(advantage + value, discounted_return(reward, discount, bootstrap))


def test_return_by_hand():
    reward = torch.tensor([[1.0], [2.0], [4.0]])
    discount = torch.tensor([[0.5], [0.0], [0.5]])
    got = discounted_return(reward, discount, torch.tensor([8.0]))
    # The expected returns are 4 + .5 * 8; 2 + 0; 1 + .5 * 2.
    assert got.flatten().tolist() == [2.0, 2.0, 8.0]


def case(seed=0, T=7, B=5):
    g = torch.Generator().manual_seed(seed)
    randn = lambda *s: torch.randn(*s, generator=g)  # noqa: E731
    terminated = torch.rand(T, B, generator=g) < 0.15
    cut = (torch.rand(T, B, generator=g) < 0.15) & ~terminated
    value, bootstrap = randn(T, B), randn(B)
    next_value = torch.cat([value[1:], bootstrap[None]])
    next_value[cut] = randn(int(cut.sum()))
    return 0.7 * randn(T, B), randn(T, B), 0.97 * (~terminated).float(), value, next_value, cut


def slow_vtrace(log_ratio, reward, discount, value, next_value, cut, lambda_, rho_clip, c_clip):
    """Espeholt et al. 2018, eq. 1: v_s = V_s + sum over t >= s of (product over s <= i < t of gamma_i c_i) delta_t."""
    T, B = reward.shape
    target, advantage = torch.zeros(T, B), torch.zeros(T, B)
    ratio = log_ratio.exp()
    for b in range(B):
        for s in range(T):
            total, weight = float(value[s, b]), 1.0
            for t in range(s, T):
                rho = min(rho_clip, float(ratio[t, b]))
                total += weight * rho * float(reward[t, b] + discount[t, b] * next_value[t, b] - value[t, b])
                if cut[t, b]:
                    break
                weight *= float(discount[t, b]) * lambda_ * min(c_clip, float(ratio[t, b]))
            target[s, b] = total
        for s in range(T):
            following = float(next_value[s, b]) if s == T - 1 or cut[s, b] else float(target[s + 1, b])
            rho = min(rho_clip, float(ratio[s, b]))
            advantage[s, b] = rho * float(reward[s, b] + discount[s, b] * following - value[s, b])
    return target, advantage


@pytest.mark.parametrize("T", [1, 2, 7])
@pytest.mark.parametrize(("lambda_", "rho_clip", "c_clip"), [(1.0, 1.0, 1.0), (0.9, 1.5, 0.8), (0.5, 100.0, 100.0)])
def test_vtrace_equals_the_sum(T, lambda_, rho_clip, c_clip):
    log_ratio, reward, discount, value, next_value, cut = case(T=T)
    got = vtrace(
        log_ratio, reward, discount, value, next_value, lambda_=lambda_, rho_clip=rho_clip, c_clip=c_clip, cut=cut
    )
    target, advantage = slow_vtrace(log_ratio, reward, discount, value, next_value, cut, lambda_, rho_clip, c_clip)
    torch.testing.assert_close(got.target, target, atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(got.advantage, advantage, atol=1e-5, rtol=1e-5)
