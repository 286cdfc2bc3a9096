"""A CallGraph replays recorded calls of kernels, also on other memory."""

import pytest
import torch

from accel_rl.kernels.activations import relu_
from accel_rl.kernels.native import call, compiled
from accel_rl.speed.captured_inference import CallRecord, CallRecorder, copy_

pytestmark = pytest.mark.skipif(compiled() is None, reason="no compiler built the extension")


def test_they_are_made_again_where_the_regions_are_then():
    x, y, still = torch.randn(6, 4), torch.zeros(6, 4), torch.zeros(4)
    with CallRecorder() as recorder:
        call(compiled(), "copy", 16, x[2], y[2])
        call(compiled(), "copy", 16, x[2], still)
        relu_(y[2])
    calls = recorder.graph(compiled())
    assert not recorder.unsupported and len(calls) == 3
    assert recorder.records[0] == CallRecord("copy", (16, x[2].data_ptr(), y[2].data_ptr()))
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
    with CallRecorder() as recorder:
        compute(x)
    assert recorder.unsupported == named


def test_memory_outlives_those_who_made_it():
    y = torch.zeros(1 << 20)
    with CallRecorder() as recorder:
        call(compiled(), "copy", y.nbytes, torch.full_like(y, 3.0), y)
    y.zero_()
    torch.full_like(
        y, 7.0
    )  # A new tensor would overwrite the recorded tensor if the recorded tensor's memory were free.
    calls = recorder.graph(compiled())
    calls.settle([])
    calls.run(0)
    assert (y == 3).all()


def test_wrong_numbers_are_refused():
    calls = compiled().CallGraph()
    for name, numbers in (("copy", [1, 2]), ("no such", [])):
        with pytest.raises((ValueError, IndexError)):
            calls.add(name, numbers)
    calls.settle([(0, 8)])
    with pytest.raises(ValueError, match="regions"):
        calls.move([])


def test_copies_between_any_two_tensors():
    x = torch.randn(1000)
    for out in (torch.zeros(1000), torch.zeros(1000, dtype=torch.float64), torch.zeros(2000)[::2]):
        copy_(out, x)
        assert torch.equal(out.float(), x)
