"""Graphs of the simulated device are captured and replayed like those of a GPU."""

import threading

import pytest
import torch

pytestmark = pytest.mark.usefixtures("simulated_gpu")
GPU = "sim:0"


def captured(gpu, step, **settings):
    """Capture the function `step` in a graph, and return the graph."""
    graph, side = gpu.CUDAGraph(), gpu.Stream()
    side.wait_stream(gpu.current_stream())
    for generator in settings.pop("generators", ()):
        graph.register_generator_state(generator)
    with gpu.graph(graph, stream=side, **settings):
        step()
    return graph


def test_capture_has_no_effects(gpu):
    x, generator = torch.zeros(3, device=GPU), torch.Generator(GPU).manual_seed(0)
    out = []

    def step():
        x.add_(1)
        x[1:].uniform_(generator=generator)
        x[0] = torch.rand((), device=GPU)
        out.append(x * 2)

    states = gpu.get_rng_state(), generator.get_state()
    captured(gpu, step, generators=[generator])
    assert x.tolist() == [0] * 3 and out[0].isnan().all()
    assert torch.equal(states[0], gpu.get_rng_state()) and torch.equal(states[1], generator.get_state())


@pytest.mark.parametrize(
    "forbidden",
    [
        lambda x: x[0].item(),
        lambda x: x.cpu(),
        lambda x: x.nonzero(),
        lambda x: torch.sim.synchronize(),
        lambda x: x.copy_(torch.ones(3), non_blocking=True),
        lambda x: torch.rand(3, device=GPU, generator=torch.Generator(GPU)),
    ],
)
def test_a_failed_capture_leaves_its_stream_current(gpu, forbidden):
    x = torch.zeros(3, device=GPU)

    def step():
        x.add_(1)
        forbidden(x)

    graph, side = gpu.CUDAGraph(), gpu.Stream()
    side.wait_stream(gpu.current_stream())
    with pytest.raises(RuntimeError, match="previous error during capture"), gpu.graph(graph, stream=side):
        step()
    assert gpu.current_stream() is side and not gpu.is_current_stream_capturing()
    gpu.set_stream(gpu.default_stream())
    with pytest.raises(RuntimeError, match="without a preceding successful capture"):
        graph.replay()
    assert x.tolist() == [0] * 3
    captured(gpu, lambda: x.add_(1)).replay()
    assert x.tolist() == [1] * 3


def test_an_error_of_python_ends_a_capture(gpu):
    with pytest.raises(ZeroDivisionError), gpu.graph(gpu.CUDAGraph(), stream=gpu.Stream()):
        raise ZeroDivisionError
    assert gpu.current_stream() is gpu.default_stream() and not gpu.is_current_stream_capturing()


def test_a_caught_error_fails_the_capture_too(gpu):
    x = torch.zeros(3, device=GPU)

    def step():
        with pytest.raises(RuntimeError, match="not permitted when stream is capturing"):
            x.tolist()

    with pytest.raises(RuntimeError, match="previous error during capture"):
        captured(gpu, step)


@pytest.mark.parametrize("mode", ["thread_local", "global"])
def test_another_thread_works_during_a_capture(gpu, mode):
    x, y, found = torch.zeros(3, device=GPU), torch.zeros(3, device=GPU), []

    def work():
        try:
            found.append((y + 1).tolist())
        except RuntimeError as e:
            found.append(str(e))

    def step():
        x.add_(1)
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()

    if mode == "global":
        with pytest.raises(RuntimeError, match="previous error during capture"):
            captured(gpu, step)
        assert "not permitted" in found[0]
    else:
        captured(gpu, step, capture_error_mode=mode).replay()
        assert found == [[1] * 3] and x.tolist() == [1] * 3


def test_other_streams_join_a_capture(gpu):
    x, y, side = torch.zeros(3, device=GPU), torch.zeros(3, device=GPU), gpu.Stream()
    gpu.synchronize()

    def step():
        x.add_(1)
        side.wait_stream(gpu.current_stream())
        with gpu.stream(side):
            y.add_(x)
        gpu.current_stream().wait_stream(side)

    graph = captured(gpu, step)
    assert y.tolist() == [0] * 3
    graph.replay()
    graph.replay()
    assert y.tolist() == [3] * 3
    with pytest.raises(RuntimeError, match="uncaptured work"):
        captured(gpu, lambda: gpu.current_stream().wait_stream(gpu.default_stream()))


def test_a_replay_after_its_memory_is_freed_raises(gpu):
    source, y = [torch.zeros(3, device=GPU)], torch.zeros(3, device=GPU)
    graph = captured(gpu, lambda: y.copy_(source[0]))
    graph.replay()
    source.clear()
    with pytest.raises(RuntimeError, match="freed since its capture"):
        graph.replay()


def test_the_default_stream_cannot_be_captured(gpu):
    with (
        pytest.raises(RuntimeError, match="non-default stream"),
        gpu.graph(gpu.CUDAGraph(), stream=gpu.default_stream()),
    ):
        pass
