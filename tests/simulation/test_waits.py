"""The host's waits for the simulated device are counted, and copies to the host are complete only after a wait."""

import threading

import pytest
import torch
from torch import Tensor

from accel_rl.data.page_locked import PageLocked

pytestmark = pytest.mark.usefixtures("simulated_gpu")
GPU = "sim:0"


def page_locked(x: Tensor) -> Tensor:
    """Page-lock a tensor of the host, and return it."""
    PageLocked([x], GPU)
    return x


def kinds(counter) -> dict[str, int]:
    """Return the counted waits by kind, and check that their source lines are in this file."""
    assert all(key.startswith("tests/simulation/test_waits.py:") for key in counter), counter
    return {key.split(" ", 1)[1]: n for key, n in counter.items()}


# -- waits ------------------------------------------------------------


@pytest.mark.parametrize(
    ("what", "read"),
    [
        ("item", lambda x, m: x[0].item()),
        ("item", lambda x, m: float(x[0])),
        ("item", lambda x, m: bool(x[0] > 0)),
        ("item", lambda x, m: f"{x[0]:.2f}"),
        ("tolist", lambda x, m: x.tolist()),
        ("repr", lambda x, m: repr(x)),
        ("nonzero", lambda x, m: m.nonzero()),
        ("nonzero", lambda x, m: torch.where(m)),
        ("boolean index", lambda x, m: x[m]),
        ("masked_select", lambda x, m: x.masked_select(m)),
        ("unique", lambda x, m: x.unique()),
        ("equal", lambda x, m: torch.equal(x, x)),
        ("repeat_interleave", lambda x, m: x.repeat_interleave(m.long())),
        ("index on the host", lambda x, m: x[torch.tensor([0, 1])]),
        ("copy to the host", lambda x, m: x.cpu()),
        ("copy to the host", lambda x, m: torch.empty(3).copy_(x)),
        ("copy to the host", lambda x, m: torch.empty(3).copy_(x, non_blocking=True)),
        ("copy to the device", lambda x, m: torch.ones(3).to("sim:0", non_blocking=True)),
        ("copy to the device", lambda x, m: x.copy_(page_locked(torch.ones(3)))),
        ("copy to the device", lambda x, m: torch.tensor([1, 2], device="sim:0")),
        ("Stream.synchronize", lambda x, m: torch.sim.current_stream().synchronize()),
        ("Event.synchronize", lambda x, m: torch.sim.current_stream().record_event().synchronize()),
        ("synchronize", lambda x, m: torch.sim.synchronize()),
        ("synchronize", lambda x, m: torch.accelerator.synchronize()),
    ],
)
def test_waits_are_counted_once(simulated_gpu, what, read):
    x, m = torch.ones(3, device=GPU), torch.ones(3, device=GPU) > 0
    with simulated_gpu.counting() as waits:
        read(x, m)
    assert kinds(waits) == {what: 1}


def test_waits_of_all_threads_are_counted_by_line(simulated_gpu):
    def read():
        torch.zeros((), device=GPU).item()

    with simulated_gpu.counting() as waits:
        read()
        thread = threading.Thread(target=read)
        thread.start()
        thread.join()
    assert waits == {f"tests/simulation/test_waits.py:{read.__code__.co_firstlineno + 1} item": 2}
    assert simulated_gpu.waits == waits


# -- asynchronous copies ------------------------------------------------------------


def test_an_early_read_sees_old_values(gpu):
    x, host = torch.ones(3, device=GPU), page_locked(torch.zeros(3))
    host.copy_(x, non_blocking=True)
    x.fill_(2)
    event = gpu.current_stream().record_event()
    assert host.tolist() == [0] * 3
    event.synchronize()
    assert host.tolist() == [1] * 3


def test_an_event_before_the_copy_and_another_stream_do_not_complete_it(gpu):
    x, host = torch.ones(3, device=GPU), page_locked(torch.zeros(3))
    event = gpu.current_stream().record_event()
    host.copy_(x, non_blocking=True)
    event.synchronize()
    gpu.Stream().synchronize()
    gpu.synchronize(1)
    assert host.tolist() == [0] * 3


@pytest.mark.parametrize("is_early", [True, False])
def test_page_locked_memory_may_be_overwritten_after_the_gpu_has_read_it(gpu, is_early):
    x, host = torch.zeros(3, device=GPU), page_locked(torch.ones(3))
    x.copy_(host, non_blocking=True)
    event = gpu.current_stream().record_event()
    if is_early:
        host.fill_(2)
        with pytest.raises(RuntimeError, match=r"overwritten before .* tests/simulation/test_waits.py"):
            event.synchronize()
    else:
        event.synchronize()
        host.fill_(2)
        gpu.synchronize()


def test_page_locks(gpu):
    host = torch.zeros(8192, dtype=torch.uint8)
    locked = PageLocked([host], GPU)
    x = torch.ones(8192, dtype=torch.uint8, device=GPU)
    host.copy_(x, non_blocking=True)
    assert host[0] == 0
    assert gpu.page_locks().register(host.data_ptr(), 10) != 0
    locked.close()
    host.copy_(x, non_blocking=True)
    assert host[0] == 1
