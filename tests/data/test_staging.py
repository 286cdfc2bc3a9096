"""Asynchronous copies through page-locked slots, with a fake runtime and the device "meta", which stores no data."""

import gc
from contextlib import nullcontext

import pytest
import torch

from accel_rl.data.page_locked import PAGE
from accel_rl.data.staging import MOST, Staging
from accel_rl.machine import devices
from tests.data.test_page_locked import Locks


class Event:
    done = True  # copies have been completed

    def __init__(self):
        self.pending = False

    def record(self, stream):
        self.pending = True

    def query(self):
        self.pending &= not Event.done
        return not self.pending

    def synchronize(self):
        self.pending = False


class Module:
    """A fake device module with streams and events, which replaces the module that `devices.runtime` returns."""

    Event = Event

    def __init__(self):
        self.runtime = Locks()

    def page_locks(self):
        return self.runtime

    def device(self, device):
        return nullcontext()

    def current_stream(self, device):
        return 0


@pytest.fixture
def staging(monkeypatch):
    monkeypatch.setattr(Event, "done", False)
    module = Module()
    monkeypatch.setattr(devices, "runtime", lambda device: module)
    return Staging("meta")


def test_on_a_cpu_it_is_the_tensor_itself():
    x, y = torch.arange(3), torch.zeros(3)
    assert Staging("cpu").put(x) is x
    Staging("cpu").copy(y, x)
    assert y.tolist() == [0, 1, 2]


def test_a_slot_is_reused_only_after_its_copy(staging, monkeypatch):
    for value in (1, 2, 3):
        assert staging.put(torch.full((4, 5), value)).shape == (4, 5)
    slots = list(staging._slots)
    assert [int(s.memory.view(torch.int64)[19]) for s in slots] == [1, 2, 3]  # none was overwritten
    monkeypatch.setattr(Event, "done", True)
    staging.put(torch.full((4, 5), 4))
    assert staging._slots == slots and int(slots[0].memory.view(torch.int64)[0]) == 4


def test_a_copy_takes_the_smallest_slot_that_fits(staging, monkeypatch):
    sizes = (10, 3 * PAGE, PAGE + 1)
    for size in sizes:
        staging.put(torch.zeros(size, dtype=torch.uint8))
    assert [len(s.memory) for s in staging._slots] == [PAGE, 4 * PAGE, 2 * PAGE]
    assert all(s.memory.data_ptr() % PAGE == 0 for s in staging._slots)
    monkeypatch.setattr(Event, "done", True)
    staging.put(torch.ones(PAGE + 5, dtype=torch.uint8))
    assert [bool(s.memory[: PAGE + 5].all()) for s in staging._slots] == [False, False, True]


def test_it_converts_to_the_destinations_dtype(staging):
    staging.copy(torch.empty(3, dtype=torch.uint8, device="meta"), torch.tensor([1, 2, 255]))
    assert staging._slots[0].memory[:3].tolist() == [1, 2, 255]


def test_an_empty_tensor_needs_no_slot(staging):
    assert staging.put(torch.zeros(0, 7)).shape == (0, 7) and not staging._slots


def test_pages_are_unlocked_when_it_is_gone(monkeypatch):
    module = Module()
    monkeypatch.setattr(devices, "runtime", lambda device: module)
    staging = Staging("meta")
    staging.put(torch.zeros(3))
    assert len(module.runtime.locked) == 1
    del staging
    gc.collect()
    assert not module.runtime.locked


def test_page_locked_memory_has_a_bound(staging):
    """Staging has at most MOST page-locked slots, and reuses a slot when the copy from it has ended."""
    first = None
    for i in range(3 * MOST):
        staging.put(torch.tensor([i]))
        first = first or staging._slots[0]
        assert len(staging._slots) == min(i + 1, MOST)
    assert first in staging._slots and {int(s.memory.view(torch.int64)[0]) for s in staging._slots} == {
        *range(2 * MOST, 3 * MOST)
    }
