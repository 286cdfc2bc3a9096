"""CallGraph that are written down, made again, and moved."""

import pytest
import torch

from accel_rl.kernels.call_graph import Recording, call
from accel_rl.kernels.conv_u8 import conv_u8
from accel_rl.kernels.elementwise import relu_
from accel_rl.kernels.frames import gather_stacks
from accel_rl.kernels.native import compiled

pytestmark = pytest.mark.skipif(compiled() is None, reason="no compiler built the extension")


def test_they_are_made_again_where_the_regions_are_then():
    x, y, still = torch.randn(6, 4), torch.zeros(6, 4), torch.zeros(4)
    with Recording(compiled()) as recording:
        call(compiled(), "copy", 16, x[2], y[2])
        call(compiled(), "copy", 16, x[2], still)
        relu_(y[2])
    calls = recording.calls()
    assert not recording.others and len(calls) == 3
    calls.settle([(x[2].data_ptr(), 16), (y[2].data_ptr(), 16)])
    calls.move([(x.data_ptr(), 16), (y.data_ptr(), 16)])
    for t in (0, 5):
        calls.run(t)
        assert torch.equal(y[t], x[t].clamp(min=0)) and torch.equal(still, x[t])
    assert (y[[1, 3, 4]] == 0).all()
    other = torch.zeros(6, 4)
    calls.move([(x.data_ptr(), 16), (other.data_ptr(), 16)])
    calls.run(1)
    assert torch.equal(other[1], x[1].clamp(min=0)) and (y[1] == 0).all()


@pytest.mark.parametrize(
    ("compute", "named"),
    [
        (lambda x: x + 1, {"add"}),
        (lambda x: float(x[0, 0]), {"_local_scalar_dense"}),
        (lambda x: x.t().contiguous(), {"clone"}),
        (lambda x: x.relu_(), {"relu_"}),
        (lambda x: x.t().reshape(-1)[:1].unsqueeze(0), {"clone", "_unsafe_view"}),
        (lambda x: x[1:].view(-1).detach().unflatten(0, (-1, 4)).expand(2, -1, -1), set()),
    ],
)
def test_what_torch_computes_itself_is_named(compute, named):
    x = torch.ones(3, 4)
    with Recording(compiled()) as recording:
        compute(x)
    assert recording.others == named


def test_memory_outlives_those_who_made_it():
    y = torch.zeros(1 << 20)
    with Recording(compiled()) as recording:
        call(compiled(), "copy", y.nbytes, torch.full_like(y, 3.0), y)
    y.zero_()
    torch.full_like(y, 7.0)  # would get the same memory
    calls = recording.calls()
    calls.settle([])
    calls.run(0)
    assert (y == 3).all()


def stacks(age):
    frames = torch.randint(0, 256, (7, 5, 40, 36), dtype=torch.uint8)
    return frames, torch.tensor([0, 3, 1]), torch.tensor([4, 0, 2]), torch.tensor(age, dtype=torch.uint8)


@pytest.mark.skipif(compiled() is None or not compiled().has_conv_u8(), reason="no AVX-512")
@pytest.mark.parametrize("seen", [0, 1, 2])
def test_a_first_layer_that_alone_sees_stacks_takes_the_frames(seen):
    """0: it alone; 1: somebody else, too; 2: of a part of them."""
    frames, t, b, age = stacks([3, 0, 2])
    weight, bias, other = torch.randn(16, 4, 8, 8), torch.randn(16), torch.zeros(5760, dtype=torch.uint8)
    with Recording(compiled()) as recording, torch.no_grad():
        obs = gather_stacks(frames, t, b, age, 4)
        if seen:
            call(compiled(), "copy", 5760, obs[seen], other)
        out = conv_u8(obs, weight, bias)
    calls = recording.calls()
    assert len(calls) == (3 if seen else 1)
    want, wanted = out.clone(), other.clone()
    out.zero_(), other.zero_()
    calls.settle([])
    calls.run(0)
    assert torch.equal(out, want) and torch.equal(other, wanted) and want.any()


def test_wrong_numbers_are_refused():
    calls = compiled().CallGraph()
    for name, numbers in (("copy", [1, 2]), ("no such", [])):
        with pytest.raises((ValueError, IndexError)):
            calls.add(name, numbers)
    calls.settle([(0, 8)])
    with pytest.raises(ValueError, match="regions"):
        calls.move([])
