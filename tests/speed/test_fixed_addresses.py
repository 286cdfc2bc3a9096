"""Batches of equal shapes are copied to the same addresses, by one launch."""

from dataclasses import dataclass, field

import pytest
import torch

from accel_rl.algos.policy_gradient import Samples
from accel_rl.speed.fixed_addresses import FixedAddresses, copy_all, kind_of
from tests.algos.made_up import rollout


@dataclass
class Batch:
    x: torch.Tensor
    parts: dict
    note: str = ""
    none: torch.Tensor | None = None
    on_host: object = field(default=None, metadata={"in_batches": False})


def test_kinds_of_batches():
    one = Batch(torch.ones(3), {"a": (torch.zeros(2), 1.0)})
    alike = Batch(torch.zeros(3), {"a": (torch.ones(2), 1.0)}, on_host=object())
    assert kind_of(one, "cpu") == kind_of(alike, "cpu") is not None
    for other in (
        Batch(torch.ones(4), {"a": (torch.zeros(2), 1.0)}),
        Batch(torch.ones(3).double(), {"a": (torch.zeros(2), 1.0)}),
        Batch(torch.ones(3), {"a": (torch.zeros(2), 2.0)}),
        Batch(torch.ones(3), {"a": (torch.zeros(2), 1.0)}, "x"),
        Batch(torch.ones(3), {"a": (torch.zeros(2), 1.0)}, none=torch.ones(1)),
        Batch(torch.ones(3), {"b": (torch.zeros(2), 1.0)}),
    ):
        assert kind_of(other, "cpu") not in (None, kind_of(one, "cpu"))
    assert kind_of(one, "cuda") is None and kind_of(Batch(torch.ones(3), {"a": object()}), "cpu") is None


def test_batches_of_a_kind_are_copied_to_the_same_addresses():
    one = Batch(torch.ones(3), {"a": (torch.zeros(2), 1.0)}, on_host=object())
    other = Batch(torch.zeros(3), {"a": (torch.ones(2), 1.0)})
    fixed = FixedAddresses()
    first = fixed.load("kind", one)
    address = first.x.data_ptr()
    assert address != one.x.data_ptr() and first.on_host is None and first.parts["a"][1] == 1.0
    second = fixed.load("kind", other)
    assert second is first and first.x.data_ptr() == address
    assert torch.equal(first.x, other.x) and torch.equal(first.parts["a"][0], torch.ones(2))
    assert torch.equal(one.x, torch.ones(3))


def test_rollouts_with_and_without_invalid_steps_share_the_memory_of_frames():
    fixed, r = FixedAddresses(), rollout(invalid=True)
    complete, partial = Samples(r, None, None), Samples(r, r.valid, torch.ones(r.T, r.B))
    one, other = (fixed.load(kind_of(x, "cpu"), x) for x in (complete, partial))
    assert one is not other and one.rollout.frames is other.rollout.frames is not r.frames
    assert one.valid is None and torch.equal(other.valid, r.valid)
    # Final frames are not copied, because few steps need them and they take as much memory as the frames.
    assert one.rollout.final_frames is None


@pytest.mark.parametrize("dtype", [torch.uint8, torch.bool, torch.int64, torch.float32, torch.float64])
@pytest.mark.parametrize(
    "change",
    [lambda x: x, lambda x: x[1:], lambda x: x.t(), lambda x: x[:, ::2], lambda x: x[0, 0], lambda x: x[:0]],
    ids=["contiguous", "rows", "transposed", "columns", "scalar", "empty"],
)
def test_tensors_of_any_layout_are_copied(dtype, change):
    xs = [change(torch.randint(0, 2, (n, 6)).to(dtype)) for n in (3, 4, 5)]
    targets = [torch.empty_like(x) for x in xs]
    copy_all(list(zip(targets, xs, strict=True)))
    assert all(torch.equal(a, b) for a, b in zip(targets, xs, strict=True))
