"""Unordered accesses of several streams to the same memory raise errors on the simulated device."""

import pytest
import torch
from torch import nn

from tests.simulation.test_graphs import captured

pytestmark = pytest.mark.usefixtures("simulated_gpu")
GPU = "sim:0"


def test_a_device_has_32_streams_of_each_priority(gpu):
    first, others = gpu.Stream(), [gpu.Stream() for _ in range(31)]
    assert len({s.stream_id for s in (first, *others)}) == 32
    assert gpu.Stream() is first and gpu.Stream() is others[0]
    assert gpu.Stream(priority=-1) is not others[1] and gpu.Stream("sim:1") is not others[1]
    assert gpu.Stream() is others[1] and gpu.default_stream() not in (first, *others)


def test_an_unordered_access_raises(gpu):
    x = torch.zeros(3, device=GPU)
    with gpu.stream(gpu.Stream()), pytest.raises(RuntimeError) as error:
        x.sum()
    line = test_an_unordered_access_raises.__code__.co_firstlineno + 1
    read, written = (f"tests/simulation/test_streams.py:{n} on stream" for n in (line + 2, line))
    assert f"unordered read by {read}" in str(error.value) and f"after write by {written}" in str(error.value)
    gpu.synchronize()
    x.sum()
    with gpu.stream(gpu.Stream()), pytest.raises(RuntimeError, match=r"unordered write .* after read"):
        x[1:].fill_(1)  # a view


def test_work_after_an_event_is_not_ordered(gpu):
    x, side = torch.zeros(3, device=GPU), gpu.Stream()
    event = gpu.current_stream().record_event()
    x.add_(1)
    side.wait_event(event)
    with gpu.stream(side), pytest.raises(RuntimeError, match="unordered"):
        x.add_(1)


def test_replays_are_accesses(gpu):
    x, side = torch.zeros(3, device=GPU), gpu.Stream()
    graph = captured(gpu, lambda: x.add_(1))
    gpu.synchronize()
    graph.replay()
    with gpu.stream(side), pytest.raises(RuntimeError, match="unordered"):
        graph.replay()


def test_backward_runs_on_the_callers_stream(gpu):
    side, layer = gpu.Stream(), nn.Linear(3, 2).to(GPU)
    x = torch.ones(4, 3, device=GPU)
    side.wait_stream(gpu.current_stream())
    with gpu.stream(side):
        layer(x).sum().backward()
    with pytest.raises(RuntimeError, match="unordered"):
        layer.weight.grad.sum()


def test_races_can_be_switched_off(simulated_gpu, gpu):
    simulated_gpu.install(races=False)
    x = torch.zeros(3, device=GPU)
    with gpu.stream(gpu.Stream()):
        assert (x + 1).tolist() == [1] * 3
    simulated_gpu.install()
