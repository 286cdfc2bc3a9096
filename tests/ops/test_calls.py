"""Calls that are written down, made again, and moved."""

import pytest
import torch

from accel_rl.ops.calls import Recording, call
from accel_rl.ops.host import compiled, relu_

pytestmark = pytest.mark.skipif(compiled() is None, reason="no compiler built the extension")


def test_they_are_made_again_where_the_regions_are_then():
    x, y, still = torch.randn(6, 4), torch.zeros(6, 4), torch.zeros(4)
    with Recording(compiled()) as recording:
        call(compiled(), "copy", 16, x[2], y[2])
        call(compiled(), "copy", 16, x[2], still)
        relu_(y[2])
    assert not recording.others and len(recording.calls) == 3
    recording.calls.settle([(x[2].data_ptr(), 16), (y[2].data_ptr(), 16)])
    recording.calls.move([(x.data_ptr(), 16), (y.data_ptr(), 16)])
    for t in (0, 5):
        recording.calls.run(t)
        assert torch.equal(y[t], x[t].clamp(min=0)) and torch.equal(still, x[t])
    assert (y[[1, 3, 4]] == 0).all()
    other = torch.zeros(6, 4)
    recording.calls.move([(x.data_ptr(), 16), (other.data_ptr(), 16)])
    recording.calls.run(1)
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
    recording.calls.settle([])
    recording.calls.run(0)
    assert (y == 3).all()


def test_wrong_numbers_are_refused():
    calls = compiled().Calls()
    for name, numbers in (("copy", [1, 2]), ("no such", [])):
        with pytest.raises((ValueError, IndexError)):
            calls.add(name, numbers)
    calls.settle([(0, 8)])
    with pytest.raises(ValueError, match="regions"):
        calls.move([])
