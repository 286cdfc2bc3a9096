"""Accesses of several streams must be ordered on the simulated device."""

import threading

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


@pytest.mark.parametrize("how", ["wait_stream", "event", "event of a third", "synchronize", "item", "query", "thread"])
def test_ordered_accesses_do_not_raise(gpu, how):
    x, side = torch.zeros(3, device=GPU), gpu.Stream()
    main = gpu.current_stream()
    if how == "wait_stream":
        side.wait_stream(main)
    elif how == "event":
        main.record_event().wait(side)
    elif how == "event of a third":
        (third := gpu.Stream()).wait_stream(main)
        side.wait_event(third.record_event())
    elif how == "synchronize":
        main.synchronize()
    elif how == "item":
        x[0].item()
    elif how == "query":
        event = main.record_event()
        while not event.query():
            pass
    else:
        gpu.synchronize()
        thread = threading.Thread(target=lambda: x.add_(1))
        thread.start()
        thread.join()
        gpu.synchronize()
    with gpu.stream(side):
        x.add_(1)
    main.wait_stream(side)
    assert x.sum().item() in (3, 6)


def test_work_after_an_event_is_not_ordered(gpu):
    x, side = torch.zeros(3, device=GPU), gpu.Stream()
    event = gpu.current_stream().record_event()
    x.add_(1)
    side.wait_event(event)
    with gpu.stream(side), pytest.raises(RuntimeError, match="unordered"):
        x.add_(1)


def test_reads_of_two_streams_and_reused_memory_raise_nothing(gpu):
    x, side = torch.zeros(1000, device=GPU), gpu.Stream()
    side.wait_stream(gpu.current_stream())
    for _ in range(100):
        x.sum()
        with gpu.stream(side):
            x.sum()


def test_replays_are_accesses(gpu):
    x, side = torch.zeros(3, device=GPU), gpu.Stream()
    graph = captured(gpu, lambda: x.add_(1))
    gpu.synchronize()
    graph.replay()
    with gpu.stream(side), pytest.raises(RuntimeError, match="unordered"):
        graph.replay()


def test_a_replay_runs_on_the_device_of_its_capture(gpu):
    x = torch.zeros(3, device="sim:1")
    with gpu.device(1):
        graph = captured(gpu, lambda: x.add_(1))
    graph.replay()
    assert x.tolist() == [1] * 3


def test_copies_between_devices_are_ordered(gpu):
    x = torch.zeros(3, device="sim:0")
    y = x.to("sim:1").add_(1)
    x.copy_(y).add_(y.to("sim:0"))
    assert x.tolist() == [2] * 3


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
