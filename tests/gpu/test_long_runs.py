"""A run on a GPU keeps its numbers of graphs, events, streams, bytes and page locks once all updates have been
captured."""

import gc
from collections import Counter

import pytest

from accel_rl.data.page_locked import PAGE
from tests.golden.runs import POLE, config
from tests.gpu.runs import GPU, build, q
from tests.simulated_device import memory, streams
from tests.simulated_device.graphs import CUDAGraph
from tests.simulated_device.streams import Event

RUNS = {
    "a2c": config("a2c", POLE, envs=2, horizon=2),
    "ppo": config("ppo", POLE, envs=2, horizon=4, minibatch=3, epochs=1),
    "impala": config("impala", POLE, envs=2, horizon=1, window=2, batches=1),
    "dqn": q("dqn"),
}
SLOTS = 16  # number of page-locked buffers that may be added after the warm-up
WARM = {"dqn": 150}  # training cycles of the warm-up, until the replay is full and some episodes reached time limits


def kept() -> dict[str, int]:
    gc.collect()
    kinds = Counter(type(x).__name__ for x in gc.get_objects() if isinstance(x, CUDAGraph | Event))
    return {
        **kinds,
        "streams": sum(len(pool) for pool, _ in streams._pools.values()),
        "bytes": sum(memory.allocated),
        "locked bytes": memory.page_locks.nbytes(),
    }


@pytest.mark.slow
@pytest.mark.parametrize(("name", "n"), [(name, 1_000) for name in RUNS])
def test_a_long_run_keeps_nothing(simulated_gpu, tmp_path, name, n):
    trainer = build(RUNS[name], GPU, tmp_path / "run")
    trainer.reporter.open(0, 0)
    try:
        for _ in range(WARM.get(name, 40)):
            trainer._cycle()
        trainer.reporter.recorder.means()
        expected = kept()
        for _ in range(n):
            trainer._cycle()
        trainer.reporter.recorder.means()
        found = kept()
        assert expected["CUDAGraph"] > 2
        for name, slots in (("Event", SLOTS), ("locked bytes", SLOTS * PAGE)):
            assert 0 <= found.pop(name) - expected.pop(name) <= slots, (found, expected)
        assert found == expected
    finally:
        trainer._close()
