import pytest
import torch

from accel_rl.optim.exchange import Local
from accel_rl.optim.flat import FlatParameters, clip_by_norm_
from accel_rl.optim.rules import Adam, RMSProp


def model():
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Tanh(), torch.nn.Linear(8, 2))


def trajectories(rule, optimizer, steps=20):
    ours, theirs = model(), model()
    flat, reference = FlatParameters(ours), optimizer(theirs.parameters())
    update = rule(len(flat.data))
    for i in range(steps):
        x = torch.randn(16, 4, generator=torch.Generator().manual_seed(i))
        for net, zero in ((ours, flat.zero_grad), (theirs, reference.zero_grad)):
            zero()
            net(x).square().sum().backward()
        update.step(flat.data, flat.grad, 1e-2)
        reference.step()
    return torch.cat([p.reshape(-1) for p in ours.parameters()]), torch.cat(
        [p.reshape(-1) for p in theirs.parameters()]
    )


def test_adam_equals_torch():
    ours, theirs = trajectories(lambda n: Adam(n, epsilon=1e-5), lambda p: torch.optim.Adam(p, 1e-2, eps=1e-5))
    torch.testing.assert_close(ours, theirs, atol=1e-6, rtol=1e-5)


def test_rmsprop_with_epsilon_outside_equals_torch():
    ours, theirs = trajectories(
        lambda n: RMSProp(n, 0.99, 1e-5, epsilon_inside=False),
        lambda p: torch.optim.RMSprop(p, 1e-2, alpha=0.99, eps=1e-5),
    )
    torch.testing.assert_close(ours, theirs, atol=1e-6, rtol=1e-5)


def test_rmsprop_with_epsilon_inside_by_hand():
    data, grad = torch.tensor([1.0, 1.0]), torch.tensor([2.0, 0.0])
    RMSProp(2, 0.9, 0.1, epsilon_inside=True).step(data, grad, 0.5)
    # v = .1 * 4; 1 - .5 * 2 / sqrt(.4 + .1)
    torch.testing.assert_close(data, torch.tensor([1 - 1 / 0.5**0.5, 1.0]))


def test_a_slice_updates_like_the_whole():
    grad = torch.randn(10, generator=torch.Generator().manual_seed(0))
    whole, parts = torch.zeros(10), torch.zeros(10)
    rule, first, second = (Adam(n) for n in (10, 6, 4))
    for _ in range(3):
        rule.step(whole, grad, 0.1)
        first.step(parts[:6], grad[:6], 0.1)
        second.step(parts[6:], grad[6:], 0.1)
    assert torch.equal(whole, parts)


def test_flat_vectors_are_the_models_own():
    net = model()
    before = torch.cat([p.detach().reshape(-1).clone() for p in net.parameters()])
    flat = FlatParameters(net)
    assert torch.equal(flat.data, before)
    net(torch.ones(1, 4)).sum().backward()
    assert torch.equal(flat.grad, torch.cat([p.grad.reshape(-1) for p in net.parameters()]))
    flat.data.zero_()
    assert all(p.eq(0).all() for p in net.parameters())


@pytest.mark.parametrize("size", [0.3, 30.0])
def test_clip(size):
    grad = torch.full((100,), size / 10)
    want = torch.nn.Parameter(torch.zeros(100))
    want.grad = grad.clone()
    torch.nn.utils.clip_grad_norm_([want], 0.5)
    assert clip_by_norm_(grad, 0.5).item() == pytest.approx(size)
    torch.testing.assert_close(grad, want.grad)


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), -float("inf")])
def test_a_gradient_that_is_not_finite_never_enters_the_parameters(bad):
    net = model()
    flat = FlatParameters(net)
    exchange = Local(flat, RMSProp(len(flat.data), 0.99, 1e-5, True), 0.5)
    before = flat.data.clone()
    flat.grad.fill_(1.0)
    flat.grad[7] = bad
    exchange.apply(1e-3, torch.tensor(1.0))
    assert torch.equal(flat.data, before) and exchange.skipped == 1
    resumed = Local(flat, RMSProp(len(flat.data), 0.99, 1e-5, True), 0.5)
    resumed.load_state_dict(exchange.state_dict())
    assert (resumed.skipped, resumed.skipped_in_a_row) == (1, 1)
    assert exchange.rule.square.isfinite().all()
    flat.grad.fill_(1.0)
    exchange.apply(1e-3, torch.tensor(1.0))
    assert not torch.equal(flat.data, before) and exchange.skipped == 1
