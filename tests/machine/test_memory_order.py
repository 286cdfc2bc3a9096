"""OrderedWords puts a memory fence before each store and after each load of shared memory."""

import numpy as np
import pytest

from accel_rl.machine import memory_order
from accel_rl.machine.memory_order import OrderedWords, fence_of_machine
from accel_rl.text.errors import RunError


def test_a_store_follows_its_fence_and_a_load_precedes_its_own():
    array, events = np.zeros(4, np.int64), []
    words = memoryview(array).cast("B").cast("q")
    ordered = OrderedWords(words, lambda: events.append(int(array[1])))
    ordered[1] = 7
    assert ordered[1] == 7 and events == [0, 7]


def test_the_compiled_fence_is_used_where_the_processor_reorders(monkeypatch):
    monkeypatch.setattr(memory_order, "IS_ORDERED", False)
    fence = fence_of_machine()
    assert fence.__name__ == "fence"
    fence()
    monkeypatch.setattr(memory_order, "_COMPILED", "accel_rl.emulator._missing")
    with pytest.raises(RunError, match="need the compiled extension"):
        fence_of_machine()
