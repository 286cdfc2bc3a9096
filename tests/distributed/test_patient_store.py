"""Calls of torch's key-value store have a time limit, even if the store's host does not answer."""

import threading
import time
from types import SimpleNamespace

import pytest
import torch.distributed as dist

from accel_rl.distributed.patient_store import PatientStore
from accel_rl.ranks import sync_context
from accel_rl.ranks.sync_context import SyncBarrier
from accel_rl.text.errors import RunError


class Silent:
    """A key-value store whose calls never return, as if its host were cut off from the network."""

    def set(self, *args):
        threading.Event().wait()

    check = add = set


class Gone(Silent):
    def set(self, *args):
        raise RuntimeError("Connection reset\nby peer")

    check = add = set


def communicator(rank):
    return SimpleNamespace(rank=rank, size=2, failed=lambda what, why: RunError(f"{what}: {why}"))


@pytest.mark.parametrize(
    ("store", "line"),
    [(Silent(), "store has not answered for 0.1 s"), (Gone(), r"store is gone \(Connection reset by peer\)")],
)
def test_a_call_ends(store, line):
    barrier = SyncBarrier(communicator(1), PatientStore(store, 0.1), 0.1)
    for call in (lambda: PatientStore(store, 0.1).check("x"), barrier.beat, lambda: barrier.agreed(False)):
        with pytest.raises(RunError, match=line):
            call()


def test_a_rank_that_writes_for_long_is_awaited_and_a_silent_one_is_not(monkeypatch):
    monkeypatch.setattr(sync_context, "LOOK_S", 0.02)
    store = dist.HashStore()
    mine, other = (SyncBarrier(communicator(r), PatientStore(store, 1.0), 0.2) for r in (0, 1))
    order = []

    def write():
        with other.saving():
            time.sleep(0.6)
            order.append(1)

    thread = threading.Thread(target=write)
    thread.start()
    with mine.saving():
        order.append(0)
    thread.join()
    assert order == [1, 0]
    with pytest.raises(RunError, match=r"rank 1 is silent for 0\.2 s"), mine.saving():
        pass
