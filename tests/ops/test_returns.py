import pytest
import torch

from accel_rl.ops.returns import discounted_return, generalized_advantage


def slow_advantage(reward, value, discount, bootstrap, next_value, lambda_, cut):
    """Schulman et al. 2016, eq. 11: A_t = sum over l of (product of discount lambda) delta_{t+l}."""
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
    # 4 + .5 * 8; 2 + 0; 1 + .5 * 2
    assert got.flatten().tolist() == [2.0, 2.0, 8.0]
