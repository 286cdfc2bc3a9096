"""Graphs of the simulated device are captured and replayed as those of a GPU."""

import threading

import pytest
import torch
from torch import Tensor

from accel_rl.optim.flat import FlatParameters
from tests.simulation.test_operations import network
from tests.simulation.test_waits import page_locked

pytestmark = pytest.mark.usefixtures("simulated_gpu")
GPU = "sim:0"


def captured(gpu, step, **settings):
    """Return a graph of the step."""
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


def test_replays_equal_calls(gpu):
    def run(replayed: bool) -> Tensor:
        x, seen = torch.zeros(4, device=GPU), torch.zeros(5, 4, device=GPU)
        at, scalar = torch.zeros(1, dtype=torch.int64, device=GPU), torch.tensor(3.0)
        generator = torch.Generator(GPU).manual_seed(1)
        torch.manual_seed(2)

        def step():
            y = x.view(2, 2).sum(0) + torch.rand(2, device=GPU, generator=generator)
            x.add_(torch.cat([y, torch.randn(2, device=GPU)])).mul_(scalar)
            seen.index_put_((at,), x * 1)

        do = captured(gpu, step, generators=[generator]).replay if replayed else step
        for t in range(5):
            at.fill_(t)
            do()
            scalar.fill_(3.0 if not replayed else 100.0)  # was read at the capture
        return seen.cpu()

    assert torch.equal(run(True), run(False))


def test_replays_of_a_training_step_equal_calls(gpu):
    def run(replayed: bool) -> Tensor:
        torch.manual_seed(0)
        model, obs = network().to(GPU), torch.zeros(5, 4, 9, 9, device=GPU)
        flat = FlatParameters(model)
        mean, square, steps = torch.zeros_like(flat.data), torch.zeros_like(flat.data), torch.zeros((), device=GPU)

        def step():
            flat.backward(model(obs).square().mean())
            steps.add_(1)
            torch._fused_adam_(
                [flat.data], [flat.grad], [mean], [square], [], [steps], amsgrad=False, beta1=0.9, beta2=0.99,
                lr=0.01, weight_decay=0.0, eps=1e-8, maximize=False,
            )  # fmt: skip

        do = captured(gpu, step).replay if replayed else step
        for _ in range(4):
            obs.uniform_()
            do()
        return flat.data.cpu()

    assert torch.equal(run(True), run(False))


def test_captured_copies_read_and_write_page_locked_memory(gpu):
    x, source, target = torch.zeros(3, device=GPU), page_locked(torch.ones(3)), page_locked(torch.zeros(3))

    def step():
        x.copy_(source, non_blocking=True)
        target.copy_(x + 1, non_blocking=True)

    graph = captured(gpu, step)
    assert target.tolist() == x.tolist() == [0] * 3
    source.fill_(4)
    graph.replay()
    assert target.tolist() == [0] * 3
    gpu.synchronize()
    assert target.tolist() == [5] * 3 and x.tolist() == [4] * 3


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
