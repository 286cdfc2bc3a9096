"""The counted operations of an algorithm's update equal those in its captured graph, and do not exceed the numbers in
docs/gpu.md."""

from contextlib import closing
from dataclasses import replace

import pytest

from accel_rl.algos.replay_algorithm import ReplayAlgorithm
from benchmarks.gpu.bench import Bench
from benchmarks.gpu.operations import STAGES, configs, count
from benchmarks.gpu.sizes import TINY
from benchmarks.gpu.training import build
from tests.marks import slow
from tests.simulated_device.graphs import CUDAGraph

COUNTS = {"A2C": 113, "PPO": 140, "PQN": 97, "DQN": 102, "C51": 100, "Rainbow": 217, "Rainbow, noisy": 355}
"""Maps each algorithm to the number of operations of a captured update, as in docs/gpu.md."""
WITH_INVALID_STEPS = {"A2C": 136, "PPO": 167}
MORE = 5  # Other versions of torch may need a few more operations per update.


@pytest.fixture
def captured(monkeypatch):
    """A list of the numbers of operations of all captured graphs."""
    found = []
    end = CUDAGraph.capture_end

    def capture_end(graph):
        end(graph)
        found.append(len(graph._operations))

    monkeypatch.setattr(CUDAGraph, "capture_end", capture_end)
    return found


# The updates of the slow tests differ from that of A2C only by their loss or their priorities.
QUICK = ("A2C",)


@pytest.mark.parametrize("name", [n if n in QUICK else slow(n) for n in COUNTS])
def test_the_operations_of_an_update(simulated_gpu, captured, tmp_path, name):
    bench = Bench("sim:0", replace(TINY, q_network="dqn", replay_size=2_000, warm_cycles=3), tmp_path, 60.0)
    config = configs(bench)[name]
    config = replace(config, sampler=replace(config.sampler, capture=False))
    with closing(build(bench, "run", config)) as run:
        algo = run.learner.algo
        if not isinstance(algo, ReplayAlgorithm):
            algo.ingest(run.rollout)
        found = count(run.learner)
        assert set(found) <= set(STAGES) and all(found[stage] for stage in STAGES if stage != "priorities")
        assert found.total() in captured, (captured, found)
        assert found.total() <= COUNTS[name] + MORE, found
        if name in WITH_INVALID_STEPS:
            invalid = count(run.learner, is_whole=False)
            assert invalid.total() <= WITH_INVALID_STEPS[name] + MORE, invalid
