import pytest
import torch

from accel_rl.distributed.gradient_sync import Local
from accel_rl.distributed.guarded_step import GuardedStep
from accel_rl.kernels import native
from accel_rl.optim.flat import FlatParameters, clip_by_norm_, l2_norm
from accel_rl.optim.optimizer import ALIGNMENT
from accel_rl.optim.optimizers import AdaGrad, Adam, RAdam, RMSProp


def model():
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Tanh(), torch.nn.Linear(8, 2))


def trajectories(ours_of, theirs_of, steps=20):
    ours, theirs = model(), model()
    flat, reference = FlatParameters(ours), theirs_of(theirs.parameters())
    update = ours_of(len(flat.data))
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


def test_radam_equals_torch():
    """The first five compared steps are those in which RAdam does not divide by the root of the second moment."""
    ours, theirs = trajectories(lambda n: RAdam(n, epsilon=1e-5), lambda p: torch.optim.RAdam(p, 1e-2, eps=1e-5))
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
    # v = .1 * 2^2 is the mean square, and the new parameter is 1 - .5 * 2 / sqrt(v + .1).
    torch.testing.assert_close(data, torch.tensor([1 - 1 / 0.5**0.5, 1.0]))


def test_adam_with_epsilon_beside_the_uncorrected_root():
    """The test computes the formula of Stooke & Abbeel 2018, appendix A, in float64. Epsilon beside the uncorrected
    root differs most from epsilon beside the corrected root at Adam's first steps."""
    g = torch.Generator().manual_seed(0)
    data, theirs = torch.ones(8), torch.ones(8, dtype=torch.float64)
    hat, usual = Adam(8, epsilon=1e-5, epsilon_hat=True), Adam(8, epsilon=1e-5)
    other, m, v = data.clone(), torch.zeros(8).double(), torch.zeros(8).double()
    for t in range(1, 41):
        grad = 1e-4 * torch.randn(8, generator=g)
        m, v = 0.9 * m + 0.1 * grad.double(), 0.999 * v + 0.001 * grad.double() ** 2
        theirs -= 1e-3 * (1 - 0.999**t) ** 0.5 / (1 - 0.9**t) * m / (v.sqrt() + 1e-5)
        hat.step(data, grad, 1e-3)
        usual.step(other, grad, 1e-3)
    torch.testing.assert_close(data.double(), theirs, atol=1e-6, rtol=0)
    assert (1 - other).abs().max() > 1.5 * (1 - data).abs().max()


def test_adagrad_equals_torch():
    ours, theirs = trajectories(lambda n: AdaGrad(n, epsilon=1e-6), lambda p: torch.optim.Adagrad(p, 1e-2, eps=1e-6))
    torch.testing.assert_close(ours, theirs, atol=1e-6, rtol=1e-5)


@pytest.mark.parametrize("rate", [0.05, torch.tensor(0.05)], ids=["number", "scalar"])
def test_adagrad_against_the_equation(rate):
    """The test computes the formula of Duchi et al. 2011, figure 1, in float64."""
    g = torch.Generator().manual_seed(0)
    data, optimizer = torch.ones(8), AdaGrad(8, epsilon=1e-3)
    want, total = [1.0] * 8, [0.0] * 8
    for t in range(200):
        grad = torch.randn(8, generator=g) * 10.0 ** -(t % 5)
        optimizer.step(data, grad, rate)
        for i, x in enumerate(grad.double().tolist()):
            total[i] += x * x
            want[i] -= 0.05 * x / (total[i] ** 0.5 + 1e-3)
    torch.testing.assert_close(data.double(), torch.tensor(want).double(), atol=2e-6, rtol=1e-5)
    torch.testing.assert_close(optimizer.square.double(), torch.tensor(total).double(), atol=0, rtol=1e-5)


OPTIMIZERS = {
    "adagrad": lambda n: AdaGrad(n, epsilon=1e-6),
    "adam": Adam,
    "adam-epsilon-hat": lambda n: Adam(n, epsilon=1e-5, epsilon_hat=True),
    "radam": RAdam,
    "rmsprop": lambda n: RMSProp(n, 0.9, 1e-3, epsilon_inside=True),
    "rmsprop-torch": lambda n: RMSProp(n, 0.9, 1e-3, epsilon_inside=False),
    "rmsprop-centered": lambda n: RMSProp(n, 0.9, 1e-3, epsilon_inside=True, centered=True),
}


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_a_slice_updates_like_the_whole(name):
    """Optimizers of slices that begin at multiples of ALIGNMENT give the same bits as an optimizer of all numbers."""
    n, cut = 10 * ALIGNMENT + 7, 6 * ALIGNMENT
    grad = torch.randn(n, generator=torch.Generator().manual_seed(0))
    whole, parts = torch.zeros(n), torch.zeros(n)
    optimizer, first, second = (OPTIMIZERS[name](k) for k in (n, cut, n - cut))
    for _ in range(8):
        optimizer.step(whole, grad, 0.1)
        first.step(parts[:cut], grad[:cut], 0.1)
        second.step(parts[cut:], grad[cut:], 0.1)
    assert torch.equal(whole, parts)


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_the_number_of_threads_does_not_matter(name):
    """On a CPU, the number of threads determines the pieces in which a vector is updated, but not the results."""
    n = 3 * 1024 * ALIGNMENT + 5
    grad, threads = torch.randn(n, generator=torch.Generator().manual_seed(0)), torch.get_num_threads()
    found = []
    try:
        for count in (1, 4):
            torch.set_num_threads(count)
            optimizer, data = OPTIMIZERS[name](n), torch.zeros(n)
            for _ in range(2):
                optimizer.step(data, grad, 0.1)
            found.append((data, optimizer.square))
    finally:
        torch.set_num_threads(threads)
    assert all(torch.equal(a, b) for a, b in zip(*found, strict=True)) and bool((found[0][0] != 0).all())


@pytest.mark.skipif(native.compiled() is None, reason="no compiler built the kernels")
@pytest.mark.parametrize("n", [1, 15, 1000, 100_001])
def test_rmsprop_in_one_pass_equals_torchs_operations(n, monkeypatch):
    g = torch.Generator().manual_seed(1)
    grads = [1e-3 * torch.randn(n, generator=g) for _ in range(5)]
    found = []
    for compiled in (True, False):
        if not compiled:
            monkeypatch.setattr(native, "compiled", lambda: None)
        optimizer, data = OPTIMIZERS["rmsprop-torch"](n), torch.ones(n)
        for grad in grads:
            optimizer.step(data, grad, 0.01)
        found.append((data, optimizer.square))
    for a, b in zip(*found, strict=True):
        torch.testing.assert_close(a, b, rtol=2e-7, atol=0)


@pytest.mark.parametrize("outside", [True, False])
def test_centered_rmsprop(outside):
    """The update must equal Graves 2013, eq. 38 to 41, if epsilon is inside the root, and torch's RMSprop otherwise."""
    if outside:
        ours, theirs = trajectories(
            lambda n: RMSProp(n, 0.95, 1e-3, epsilon_inside=False, centered=True),
            lambda p: torch.optim.RMSprop(p, 1e-2, alpha=0.95, eps=1e-3, centered=True),
        )
        torch.testing.assert_close(ours, theirs, atol=1e-6, rtol=1e-5)
        return
    g, data = [2.0, -1.0, 0.5], torch.zeros(1)
    optimizer, square, mean, want = RMSProp(1, 0.95, 0.01, epsilon_inside=True, centered=True), 0.0, 0.0, 0.0
    for x in g:
        optimizer.step(data, torch.tensor([x]), 0.1)
        square, mean = 0.95 * square + 0.05 * x * x, 0.95 * mean + 0.05 * x
        want -= 0.1 * x / (square - mean**2 + 0.01) ** 0.5
    torch.testing.assert_close(data, torch.tensor([want]))


def test_rules_go_on_from_their_state():
    for name, make in OPTIMIZERS.items():
        grad = torch.randn(100, generator=torch.Generator().manual_seed(1))
        one, other, a, b = make(100), make(100), torch.zeros(100), torch.zeros(100)
        one.step(a, grad, 0.1)
        b.copy_(a)
        other.load_state_dict(one.state_dict())
        for optimizer, data in ((one, a), (other, b)):
            optimizer.step(data, -2 * grad, 0.1)
        assert torch.equal(a, b), name


def test_flat_vectors_are_the_models_own():
    net = model()
    before = torch.cat([p.detach().reshape(-1).clone() for p in net.parameters()])
    flat = FlatParameters(net)
    assert torch.equal(flat.data, before)
    net(torch.ones(1, 4)).sum().backward()
    assert torch.equal(flat.grad, torch.cat([p.grad.reshape(-1) for p in net.parameters()]))
    flat.data.zero_()
    assert all(p.eq(0).all() for p in net.parameters())


def test_backward_replaces_what_was_there():
    net = model()
    flat = FlatParameters(net)
    unused = net[2].bias
    flat.grad.fill_(7.0)
    x = torch.ones(3, 4)
    flat.backward(net[1](net[0](x)).sum())
    got = flat.grad.clone()
    assert unused.grad.eq(0).all() and unused.grad.data_ptr() == flat.grad[flat.slices["2.bias"]].data_ptr()
    flat.zero_grad()
    net[1](net[0](x)).sum().backward()
    assert torch.equal(got, flat.grad)


@pytest.mark.parametrize("size", [0.3, 30.0])
def test_clip(size):
    grad = torch.full((100,), size / 10)
    want = torch.nn.Parameter(torch.zeros(100))
    want.grad = grad.clone()
    torch.nn.utils.clip_grad_norm_([want], 0.5)
    assert clip_by_norm_(grad, 0.5).item() == pytest.approx(size)
    torch.testing.assert_close(grad, want.grad)


@pytest.mark.parametrize("n", [1, 1000, 200_001])
def test_the_norm_is_the_same_for_any_number_of_threads(n):
    grad, threads, found = torch.randn(n), torch.get_num_threads(), set()
    try:
        for t in (1, 2, 3):
            torch.set_num_threads(t)
            found.add(clip_by_norm_(grad, None).item())
    finally:
        torch.set_num_threads(threads)
    assert len(found) == 1 and found.pop() == pytest.approx(grad.double().norm().item(), rel=1e-6)


@pytest.mark.parametrize("n", [1, 1024, 16_383, 16_384, 16_385, 601_237, 7_000_001])
def test_the_norm_is_that_of_float64(n):
    x = torch.randn(n, generator=torch.Generator().manual_seed(n)) * torch.linspace(1e-3, 1, n)
    assert l2_norm(x).item() == pytest.approx(x.double().norm().item(), rel=1e-6)
    assert l2_norm(x[n // 3 :]).item() == pytest.approx(x[n // 3 :].double().norm().item(), rel=1e-6)


@pytest.mark.parametrize("at", [0, 20_000, 20_479, 20_480, 20_500])
@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_the_norm_of_a_vector_that_is_not_finite_is_not_finite(bad, at):
    x = torch.ones(20_501)
    x[at] = bad
    assert not l2_norm(x).isfinite()


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), -float("inf")])
def test_a_gradient_that_is_not_finite_never_enters_the_parameters(bad):
    net = model()
    flat = FlatParameters(net)
    gradient_sync = Local(GuardedStep(flat, RMSProp(len(flat.data), 0.99, 1e-5, True), 0.5))
    before = flat.data.clone()
    flat.grad.fill_(1.0)
    flat.grad[7] = bad
    gradient_sync.step(1e-3, torch.tensor(1.0))
    assert torch.equal(flat.data, before) and gradient_sync.skips.total == 1
    resumed = Local(GuardedStep(flat, RMSProp(len(flat.data), 0.99, 1e-5, True), 0.5))
    resumed.load_state_dict(gradient_sync.state_dict())
    assert (resumed.skips.total, resumed.skips.in_a_row) == (1, 1)
    assert gradient_sync.guarded.optimizer.square.isfinite().all()
    flat.grad.fill_(1.0)
    gradient_sync.step(1e-3, torch.tensor(1.0))
    assert not torch.equal(flat.data, before) and gradient_sync.skips.total == 1
