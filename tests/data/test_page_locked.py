"""Page locking: the locked pages, failures, and release."""

import pytest
import torch

from accel_rl.data.page_locked import PAGE, PageLocked, whole_pages
from accel_rl.system import hardware
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


class Runtime:
    def __init__(self, error=0):
        self.error, self.locked = error, {}

    def cudaHostRegister(self, address, size, flags):
        if not self.error:
            self.locked[address] = size
        return self.error

    def cudaHostUnregister(self, address):
        del self.locked[address]  # an error if it is not


def test_all_of_it_is_locked_and_let_go():
    tensors, runtime = [torch.zeros(3, 100_000), torch.zeros(7)], Runtime()
    locked = PageLocked(tensors, runtime)
    for x in tensors:
        assert any(a <= x.data_ptr() and x.data_ptr() + x.nbytes <= a + n for a, n in runtime.locked.items())
    locked.close()
    locked.close()
    assert not runtime.locked


def test_what_cannot_be_locked_is_said_once(monkeypatch):
    monkeypatch.setattr(hardware, "_said", set())
    with pytest.warns(UserWarning, match=r"could not be page-locked \(CUDA error 2; see ulimit -l\)") as said:
        for _ in range(2):
            PageLocked([torch.zeros(10)], Runtime(error=2)).close()
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
