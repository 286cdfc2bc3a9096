"""The extension against the same said in torch, which is checked against lists of transitions elsewhere."""

import shutil
import subprocess
import sysconfig
import threading
from pathlib import Path

import pytest
import torch

from accel_rl.data.replay_batch import ReplayBatch
from accel_rl.kernels import actions, elementwise, native, sums
from accel_rl.kernels.pictures import channels_last
from accel_rl.replays.prioritized import Prioritized
from accel_rl.replays.replay import Replay
from accel_rl.replays.returns import NStep
from accel_rl.replays.ring import FrameRing
from accel_rl.system import hardware
from tests.replays.made_up import Simulators

pytestmark = pytest.mark.skipif(native.compiled() is None, reason="no compiler built the extension")


def pair(n, rows=40, B=4, T=5, rollouts=30, alpha=0.7, **options):
    """The same experience in a ring that draws by the extension and in one that does without."""
    sims = Simulators(B, T, 3, **options)
    rings = [FrameRing(sims.spec, B, rows * B, NStep(n, 0.97, 1.0)) for _ in range(2)]
    rings[1].host = None
    found = [Replay(ring, Prioritized(ring, 1, alpha, 0.5)) for ring in rings]
    for _ in range(rollouts):
        rollout = sims.rollout()
        for replay in found:
            replay.append(rollout)
    return found


def equal(a: ReplayBatch, b: ReplayBatch) -> None:
    for name in ("obs_tm1", "a_tm1", "r_t", "discount_t", "obs_t", "cell"):
        assert torch.equal(getattr(a, name), getattr(b, name)), name
    torch.testing.assert_close(a.weight, b.weight, rtol=1e-6, atol=0)


@pytest.mark.parametrize("dies", [0.0, 0.3])
@pytest.mark.parametrize("stack", [1, 4])
@pytest.mark.parametrize("n", [1, 3, 5])
def test_batches_priorities_and_weights_are_the_same(n, stack, dies):
    compiled, plain = pair(n, stack=stack, dies=dies)
    assert plain.selection._host is None
    g = torch.Generator().manual_seed(0)
    for N in (1, 7, 32, 300):
        a, b = compiled.sample(N), plain.sample(N)
        equal(a, b)
        error = torch.randn(N, generator=g)
        error[0] = torch.nan
        for replay, batch in ((compiled, a), (plain, b)):
            replay.update(batch, error[batch.cell % N])  # equal cells, equal errors
        torch.testing.assert_close(compiled.selection.highest, plain.selection.highest)
        for x, y in zip(compiled.selection.tree.levels, plain.selection.tree.levels, strict=True):
            torch.testing.assert_close(x, y)


def test_cells_that_are_not_there_cannot_be_drawn():
    compiled, plain = (replay.ring for replay in pair(3, dies=0.3))
    cells = torch.arange(-50, (compiled.cursor + 3) * compiled.B)[::2]
    assert torch.equal(compiled.sampleable(cells), plain.sampleable(cells))


def test_two_threads_may_draw_at_once():
    compiled, _ = pair(1, rows=400, B=8, rollouts=90)
    low, high = compiled.ring.eligible
    cells = torch.randint(low * 8, high * 8, (2000,))
    cells = cells[compiled.ring.sampleable(cells)]
    expected, wrong = compiled.ring.batch(cells).obs_t.clone(), []

    def draw():
        for _ in range(30):
            wrong.append(not torch.equal(compiled.ring.batch(cells).obs_t, expected))

    threads = [threading.Thread(target=draw) for _ in range(2)]
    for t in threads:
        t.start()
    for t in threads:
        t.join(60)
    assert len(wrong) == 60 and not any(wrong)


def test_without_the_extension_one_line_says_so(monkeypatch):
    monkeypatch.setattr(native.importlib, "import_module", lambda name: (_ for _ in ()).throw(ImportError(name)))
    monkeypatch.setattr(hardware, "_said", set())
    sims = Simulators(4, 5, 0)
    with pytest.warns(UserWarning, match="are not built") as said:
        rings = [FrameRing(sims.spec, 4, 160, NStep(1)) for _ in range(2)]
    assert len(said) == 1 and all(ring.host is None for ring in rings)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64])
@pytest.mark.parametrize(("stack", "size"), [(4, (84, 84)), (4, (5, 3)), (3, (7, 9)), (1, (8, 8)), (5, (104, 80))])
@pytest.mark.parametrize("threads", [1, 2])
def test_pictures_in_channels_last_order(stack, size, dtype, threads):
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        window = torch.randint(0, 256, (9, stack + 1, *size), dtype=torch.uint8)
        whole, shuffled = window[:, 1:].contiguous(), window[:, 1:].contiguous(memory_format=torch.channels_last)
        for pictures in (window[:, 1:], whole, shuffled, whole[::2], whole[:0]):
            got, want = channels_last(pictures, dtype), pictures.to(dtype, memory_format=torch.channels_last)
            assert torch.equal(got, want) and got.stride() == want.stride() and got.dtype == dtype
    finally:
        torch.set_num_threads(before)


@pytest.mark.parametrize("parts", [1, 2, 5])
@pytest.mark.parametrize("n", [1, 15, 1024, 5000])
def test_weighted_sums_and_their_squares(n, parts):
    g = torch.Generator().manual_seed(0)
    vectors, weights = [torch.randn(n, generator=g) for _ in range(parts)], [0.5 + k for k in range(parts)]
    out = torch.empty(n)
    squares = sums.weighted_sum(vectors, weights, out)
    expected = sum(w * v.double() for w, v in zip(weights, vectors, strict=True))
    torch.testing.assert_close(out.double(), expected, rtol=1e-5, atol=1e-6)
    assert squares == pytest.approx(float(expected.square().sum()), rel=1e-5)
    vectors[0][0] = torch.nan
    assert sums.weighted_sum(vectors, weights, out) != squares
    assert out[0].isnan()


@pytest.mark.skipif(shutil.which("g++") is None, reason="needs g++")
def test_it_compiles_for_a_cpu_that_is_no_x86():
    pybind11 = pytest.importorskip("pybind11")
    source = Path(native.__file__).parent / "src" / "module.cpp"
    includes = [f"-I{sysconfig.get_path('include')}", f"-I{pybind11.get_include()}"]
    done = subprocess.run(
        ["g++", "-std=c++17", "-DACCEL_PLAIN", "-fsyntax-only", "-Wall", *includes, source],
        capture_output=True,
        text=True,
    )
    assert not done.returncode and not done.stderr, done.stderr


@pytest.mark.parametrize(
    "epsilon", [torch.tensor(0.0), torch.tensor(0.37), torch.tensor(1.0), torch.linspace(0, 1, 500)]
)
def test_epsilon_greedy_is_what_torch_chooses(epsilon):
    q, uniform = torch.randn(500, 7), torch.rand(500)
    q[::5] = q[::5].round()  # with ties
    q[3, 4] = q[9, 2] = q[9, 5] = float("nan")
    uniform[:3] = torch.tensor([0.0, 1 - 2**-24, 0.37])
    anything = (uniform / epsilon * 7).long().clamp_(max=6)
    want = torch.where(uniform < epsilon, anything, q.argmax(-1))
    assert torch.equal(actions.epsilon_greedy(q, uniform, epsilon), want)
    assert torch.equal(actions.epsilon_greedy(q.double(), uniform, epsilon), want)


def test_relu_and_copy():
    x = torch.randn(1000)
    x[7], x[8] = float("nan"), float("-inf")
    want, y = torch.relu(x), x.clone()
    assert elementwise.relu_(y) is y and torch.equal(y.nan_to_num(5.0), want.nan_to_num(5.0))
    loss = elementwise.relu_(torch.ones(3, requires_grad=True) * -1).sum()
    loss.backward()
    for out, source in (
        (torch.zeros(1000), x),
        (torch.zeros(1000, dtype=torch.float64), x),
        (torch.zeros(2000)[::2], x),
    ):
        elementwise.copy_(out, source)
        assert torch.equal(out.float().nan_to_num(5.0), x.nan_to_num(5.0))
