"""The numbers of launches on the GPU per minibatch and per training cycle, after all captures."""

from itertools import pairwise

import pytest
import torch

from accel_rl.algos.algorithm import advance
from tests.gpu.runs import GPU, RUNS, build, cycles
from tests.marks import slow

WARM = 8  # Number of training cycles until all parts are captured as graphs.
# Maps each run to its number of launches in a training cycle, without the launches of updates.
# The counted launches, for example, copy a rollout, compute advantages, and sum up metrics.
CYCLE = {
    "a2c, pong": 7,
    "a2c, LSTM, pong": 7,
    "ppo, pong": 9,
    "ppo, LSTM, pong": 9,
    "pqn, pong": 10,
    "impala": 54,
    "dqn, pong": 15,
}
MINIBATCH = {"a2c, pong": 1, "a2c, LSTM, pong": 1, "impala": 3, "dqn, pong": 1}
"""Launches of a minibatch: one graph. PPO and PQN also copy the indices of the samples, and IMPALA the window."""


@pytest.mark.parametrize("name", [n if n == "ppo, pong" else slow(n) for n in CYCLE])
def test_an_update_is_one_launch_and_one_copy_of_indices(simulated_gpu, tmp_path, name, capsys):
    trainer = build(RUNS[name], GPU, tmp_path / "run")
    trainer.reporter.open(0, 0)
    try:
        cycles(trainer, WARM)
        learner = trainer.learner
        rollout = trainer.sampler.collect(learner.algo.agent)
        marks: list[int] = []
        with simulated_gpu.launching() as launches:
            advance(learner.algo, rollout)
            learner.ingest(rollout)
            ingested = launches.total()
            metrics = learner.learn(between=lambda: marks.append(launches.total()))
            for m in metrics:
                trainer.reporter.recorder.add(m)
    finally:
        trainer._close()
    each = [b - a for a, b in pairwise(marks)] or [marks[0] - ingested]
    rest = launches.total() - sum(each) - (each[0] if len(marks) > 1 else 0)
    with capsys.disabled():
        print(f"\n{name}: {len(marks)} updates of {max(each)} launches, and {rest} a cycle", end="")
    assert marks and max(each) <= MINIBATCH.get(name, 2), launches
    assert rest <= CYCLE[name], launches


def test_launches_are_counted(simulated_gpu):
    x, host = torch.ones(4, device=GPU), torch.zeros(4)
    graph = torch.sim.CUDAGraph()
    with simulated_gpu.launching() as launches:
        y = x + 1
        y[:2].add_(x[2:])
        x.copy_(host)
        host.copy_(x)
        torch.empty(3, device=GPU)
        x.view(2, 2)
        torch._foreach_copy_([x, y], [y, x])
        with torch.sim.graph(graph):
            x.mul_(2)
        graph.replay()
    kinds = {key.split(" ", 1)[1]: n for key, n in launches.items()}
    assert kinds == {
        "aten::add": 1, "aten::add_": 1, "copy to the device": 1, "copy from the device": 1, "aten::_foreach_copy_": 1,
        "graph": 1,
    }  # fmt: skip
    assert all(key.startswith("tests/speed/test_launches.py:") for key in launches)
