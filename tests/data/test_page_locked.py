"""Page-locked memory: which pages are locked, failures, and the release of pages."""

import warnings
from contextlib import nullcontext

import pytest
import torch

from accel_rl.data.page_locked import PAGE, PageLocked, page_locked_zeros, whole_pages
from accel_rl.data.rollout_arrays import TENSORS, RolloutArrays
from accel_rl.data.spec import EnvSpec
from accel_rl.data.staging import Staging
from accel_rl.machine import devices
from accel_rl.text import notes
from tests.samplers.conftest import make_sampler
from tests.speed.test_captured_inference import ENV


def test_each_page_once():
    memory = torch.zeros(10 * PAGE, dtype=torch.uint8)
    first = -memory.data_ptr() % PAGE
    at = memory.data_ptr() + first

    def part(begin, end):
        return memory[first + begin : first + end]

    assert whole_pages([part(0, 1)]) == [(at, PAGE)]
    assert whole_pages([part(PAGE - 1, PAGE + 1), part(3, 4)]) == [(at, 2 * PAGE)]
    assert whole_pages([part(5 * PAGE, 6 * PAGE), part(0, 10), part(6 * PAGE, 6 * PAGE + 1), part(2, 2)]) == [
        (at, PAGE),
        (at + 5 * PAGE, 2 * PAGE),
    ]


class Locks:
    """A fake of a GPU's runtime that records the locked memory. Each call that locks memory returns the error code
    `error`."""

    def __init__(self, error=0):
        self.error, self.locked = error, {}

    def page_locks(self):
        return self

    def device(self, device):
        return nullcontext()

    def register(self, address, size):
        if not self.error:
            self.locked[address] = size
        return self.error

    def unregister(self, address):
        del self.locked[address]  # KeyError for unlocked memory


def test_all_of_it_is_locked_and_let_go(monkeypatch):
    tensors, locks = [torch.zeros(3, 100_000), torch.zeros(7)], Locks()
    monkeypatch.setattr(devices, "runtime", lambda device: locks)
    locked = PageLocked(tensors, "cuda:0")
    for x in tensors:
        assert any(a <= x.data_ptr() and x.data_ptr() + x.nbytes <= a + n for a, n in locks.locked.items())
    locked.close()
    locked.close()
    assert not locks.locked


def test_what_cannot_be_locked_is_said_once(monkeypatch):
    monkeypatch.setattr(notes, "_said", set())
    monkeypatch.setattr(devices, "runtime", lambda device: Locks(error=2))
    with pytest.warns(UserWarning, match=r"could not be page-locked \(CUDA error 2; see ulimit -l\)") as said:
        for _ in range(2):
            PageLocked([torch.zeros(10)], "cuda:0").close()
    assert len(said) == 1


@pytest.mark.gpu
@pytest.mark.parametrize("workers", [0, 2])
def test_a_samplers_memory_on_a_gpu(workers):
    sampler = make_sampler(ENV, 8, 2, workers, device="cuda")
    arrays = [sampler.server.host[i].frames for i in (0, 1)]
    assert all(x.is_pinned() for x in arrays)
    sampler.server.close()
    assert not any(x.is_pinned() for x in arrays)
    sampler.close()


def test_two_samplers_of_a_process_lock_each_page(simulated_gpu):
    """Rollouts of two samplers in private memory must not share a page, because a page cannot be locked twice."""
    spec = EnvSpec("made up", (7, 5), "uint8", 6, 4)
    arrays = [RolloutArrays.zeros(spec, 3, 2) for _ in range(6)]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for a in arrays:
            PageLocked([torch.from_numpy(getattr(a, name)) for name in TENSORS], "sim:0")


@pytest.mark.parametrize(
    "use",
    [
        lambda device: page_locked_zeros((3,), torch.int64, device),
        lambda device: Staging(device).put(torch.ones(5)).tolist(),
        lambda device: make_sampler(ENV, 8, 2, 0, device=device).close(),
    ],
    ids=["memory", "staging", "sampler"],
)
def test_memory_for_the_second_gpu_uses_no_memory_of_the_first(simulated_gpu, use):
    """Page-locked memory, staging and a sampler for sim:1 do not touch sim:0, torch's current device in a new
    thread."""
    use("sim:1")
    assert simulated_gpu.touched == {1}
