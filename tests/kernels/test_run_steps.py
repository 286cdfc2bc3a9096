"""A group's steps in a row, against workers that are threads here."""

import os
import select
import threading

import numpy as np
import pytest
import torch

from accel_rl.kernels.native import compiled
from accel_rl.kernels.run_steps import gate, rounds
from accel_rl.samplers.workers.event_fd import EventFd

pytestmark = pytest.mark.skipif(compiled() is None, reason="not compiled")


class Worker:
    """Answers whatever it is asked, and notes the slots."""

    def __init__(self, answers_to: EventFd, most: int = 10_000):
        self.cells = np.zeros((3, 8), np.int64)
        self.bell, self._server, self._most, self.slots = EventFd(), answers_to, most, list[int]()
        threading.Thread(target=self._work, daemon=True).start()

    def _work(self) -> None:
        request, answer, slot = self.cells
        poll = select.poll()
        poll.register(self.bell.read_fd, select.POLLIN)
        while len(self.slots) < self._most:
            while request[0] == answer[0]:
                poll.poll()
                self.bell.drain()
            self.slots.append(int(slot[0] + answer[0]))
            answer[0] += 1
            self._server.ring()

    @property
    def wire(self) -> tuple[int, int, int, int]:
        request, answer, slot = (row.ctypes.data for row in self.cells)
        return request, answer, slot, self.bell.write_fd


def counting(steps: int):
    """CallGraph that copy number t of a row of numbers to place t of another (keep both): what was made shows there."""
    module, there = compiled(), torch.zeros(steps, dtype=torch.int64)
    numbers = torch.arange(1, steps + 1)
    calls = module.CallGraph()
    calls.add("copy", [8, numbers.data_ptr(), there.data_ptr()])
    calls.settle([(x.data_ptr(), 8) for x in (there, numbers)])
    calls.move([(x.data_ptr(), 8) for x in (there, numbers)])
    return calls, there, numbers


@pytest.mark.parametrize("workers", [1, 3])
def test_every_step_is_acted_for_once_and_asked_for(workers):
    bell, changes, (calls, there, numbers) = EventFd(), np.zeros(1, np.int64), counting(50)
    team = [Worker(bell) for _ in range(workers)]
    wires = [w.wire for w in team]
    assert rounds(calls, gate(), wires, bell.read_fd, changes.ctypes.data, 0, 0, 20, 100) == 20
    assert there.tolist() == [*range(1, 21), *[0] * 30]
    assert rounds(calls, gate(), wires, bell.read_fd, changes.ctypes.data, 0, 20, 50, 100) == 50
    assert torch.equal(there, numbers)
    for w in team:
        while len(w.slots) < 50:
            os.sched_yield()
        assert w.slots == list(range(100, 150))


def test_a_change_ends_the_waiting_and_nobody_is_asked_after_it():
    """A worker that has died will not answer; who sees to it says so and rings."""
    bell, changes, (calls, there, _) = EventFd(), np.zeros(1, np.int64), counting(50)
    dying = Worker(bell, most=7)

    def bury():
        while len(dying.slots) < 7 or dying.cells[0, 0] < 8:
            os.sched_yield()
        changes[0] += 1
        bell.ring()

    threading.Thread(target=bury, daemon=True).start()
    left = rounds(calls, gate(), [dying.wire], bell.read_fd, changes.ctypes.data, 0, 0, 50, 0)
    assert left == 8 and there.tolist() == [*range(1, 9), *[0] * 42] and dying.cells[0, 0] == 8
    assert rounds(calls, gate(), [dying.wire], bell.read_fd, changes.ctypes.data, 0, left, 50, 0) == left  # at once


def test_who_takes_part_is_not_changed_while_somebody_is_asked():
    bell, changes, (calls, *held) = EventFd(), np.zeros(1, np.int64), counting(50)
    worker, changing = Worker(bell), gate()
    ended = []
    with changing:
        playing = threading.Thread(
            target=lambda: ended.append(
                rounds(calls, changing, [worker.wire], bell.read_fd, changes.ctypes.data, 0, 0, 50, 0)
            )
        )
        playing.start()
        playing.join(0.2)
        assert not ended and worker.cells[0, 0] == 0
        changes[0] += 1
    playing.join(10)
    assert ended == [0] and worker.cells[0, 0] == 0 and held[0][1:].sum() == 0
