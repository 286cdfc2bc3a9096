"""The simulated device itself: it computes what the host does, and finds what breaks on a GPU."""

import copy
import os
import subprocess
import sys
import threading

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from accel_rl.data.page_locked import PageLocked
from accel_rl.optim.flat import FlatParameters
from accel_rl.optim.optimizers import Adam
from accel_rl.system import devices

pytestmark = pytest.mark.usefixtures("simulated_gpu")
GPU = "sim:0"


@pytest.fixture
def gpu(simulated_gpu):
    """The device type's module, such as torch.cuda."""
    return torch.get_device_module("sim")


def page_locked(x: Tensor) -> Tensor:
    PageLocked([x], torch.get_device_module("sim"))
    return x


def kinds(counter) -> dict[str, int]:
    """Number of waits by what they were, all in this file."""
    assert all(key.startswith("tests/test_simulated_device.py:") for key in counter), counter
    return {key.split(" ", 1)[1]: n for key, n in counter.items()}


# -- presence ------------------------------------------------------------


def test_is_the_accelerator(gpu):
    assert devices.gpu_type() == "sim" and torch.accelerator.device_count() == gpu.device_count() == 2
    assert devices.runtime("sim:1") is gpu is torch.sim
    assert torch.accelerator.current_accelerator() == torch.device("sim")


def test_is_absent_outside():
    code = """
from tests import simulated_device
simulated_device.install()
from accel_rl.system import devices
import torch
assert devices.gpu_type() is None and torch.accelerator.device_count() == 0
with simulated_device.present():
    assert devices.gpu_type() == "sim"
assert devices.gpu_type() is None and torch.Generator is torch._C.Generator
"""
    environment = {n: x for n, x in os.environ.items() if n != "ACCEL_RL_TEST_SIMULATED_DEVICE"}
    subprocess.run([sys.executable, "-c", code], check=True, env=environment)


def test_child_processes_have_it():
    code = "import torch; x = torch.ones(2, device='sim:1'); print((x + x).tolist(), torch.accelerator.device_count())"
    assert subprocess.check_output([sys.executable, "-c", code], text=True) == "[2.0, 2.0] 2\n"


def test_child_processes_that_do_not_import_torch_pay_nothing():
    code = "import sys; assert 'torch' not in sys.modules and 'tests' not in sys.modules and 'importlib.util'"
    subprocess.run([sys.executable, "-c", code], check=True)


# -- tensors ------------------------------------------------------------


def network() -> nn.Module:
    return nn.Sequential(nn.Conv2d(4, 8, 3, stride=2), nn.ReLU(), nn.Flatten(), nn.Linear(8 * 4 * 4, 3))


def trained(device: str, make_optimizer) -> Tensor:
    torch.manual_seed(0)
    model = network().to(device)
    optimizer = make_optimizer(model.parameters())
    for _ in range(4):
        optimizer.zero_grad()
        obs = torch.rand(5, 4, 9, 9, device=device)
        loss = (model(obs) - torch.randn(5, 3, device=device)).square().mean()
        loss.backward()
        optimizer.step()
    return nn.utils.parameters_to_vector(model.parameters()).detach().cpu()


@pytest.mark.parametrize("device", ["sim:0", "sim:1"])
@pytest.mark.parametrize("fused", [False, True])
def test_training_equals_the_hosts(device, fused):
    def adam(parameters):
        return torch.optim.Adam(parameters, lr=0.01, fused=fused)

    assert torch.equal(trained(device, adam), trained("cpu", adam))


def test_training_flat_parameters_equals_the_hosts():
    found = []
    for device in ("cpu", "sim:0"):
        torch.manual_seed(0)
        flat = FlatParameters(model := network().to(device))
        rule = Adam(len(flat.data), device=device)
        for _ in range(3):
            flat.backward(model(torch.rand(5, 4, 9, 9, device=device)).square().mean())
            rule.step(flat.data, flat.grad, 0.01)
        assert all(p.grad.data_ptr() == p.flat_grad.data_ptr() != 0 for p in model.parameters())
        found.append(flat.data.cpu())
    assert torch.equal(*found)


@pytest.mark.parametrize("overload", [0.1, "tensor"])
def test_fused_adam_skips_a_step_with_infinities(overload):
    lr = torch.tensor(0.1, device=GPU) if overload == "tensor" else overload
    x, grad, mean, square = (torch.ones(5, device=GPU) for _ in range(4))
    settings = dict(amsgrad=False, beta1=0.9, beta2=0.99, lr=lr, weight_decay=0.0, eps=1e-8, maximize=False)
    for found, is_same in ((1.0, True), (0.0, False)):
        step, found_inf = torch.ones((), device=GPU), torch.full((), found, device=GPU)
        torch._fused_adam_([x], [grad], [mean], [square], [], [step], **settings, found_inf=found_inf)
        assert torch.equal(x.cpu(), torch.ones(5)) == is_same


def test_lstm_cell_nearly_equals_the_hosts():
    cell, x = nn.LSTMCell(3, 5), torch.rand(4, 3)
    state = torch.rand(4, 5), torch.rand(4, 5)
    here = copy.deepcopy(cell).to(GPU)
    expected, found = cell(x, state), here(x.to(GPU), tuple(s.to(GPU) for s in state))
    for device_result, result in zip(found, expected, strict=True):
        torch.testing.assert_close(device_result.cpu(), result)
    (found[0].sum() + 2 * found[1].sum()).backward()
    (expected[0].sum() + 2 * expected[1].sum()).backward()
    for p, q in zip(here.parameters(), cell.parameters(), strict=True):
        torch.testing.assert_close(p.grad.cpu(), q.grad)


def test_autocast_multiplies_in_bfloat16():
    layer = nn.Linear(3, 2).to(GPU)
    with torch.autocast("sim", torch.bfloat16):
        y = layer(torch.ones(4, 3, device=GPU))
        assert y.dtype == torch.bfloat16 and y.softmax(-1).dtype == torch.float32
        with torch.autocast("sim", enabled=False):
            assert layer(torch.ones(4, 3, device=GPU)).dtype == torch.float32
    y.sum().backward()
    assert layer.weight.grad.dtype == torch.float32


def test_views_stay_views():
    x = torch.zeros(4, 6, device=GPU)
    x[1].fill_(1)
    x.view(-1)[12:14] = 2
    x.permute(1, 0)[5, 3] = 3
    x.detach().flatten()[0] = 4
    x.data[0, 1:3] = torch.tensor([5.0, 6.0], device=GPU)
    assert x[1].add_(0) is not x and x.add_(0) is x
    host = torch.zeros(4, 6)
    host[1], host.view(-1)[12:14], host[3, 5], host[0, 0], host[0, 1], host[0, 2] = 1, 2, 3, 4, 5, 6
    assert torch.equal(x.cpu(), host)
    assert x[1].data_ptr() - x.data_ptr() == 24 and x[1]._base is x
    assert x[:1].expand(3, 6).data_ptr() == x.data_ptr()


def test_parameters_become_views():
    p = nn.Parameter(torch.ones(2, 3, device=GPU))
    flat = torch.zeros(6, device=GPU)
    p.data = flat.view_as(p)
    p.grad = torch.ones(6, device=GPU).view_as(p)
    flat.fill_(7)
    assert isinstance(p, nn.Parameter) and p.data_ptr() == flat.data_ptr() and p.tolist() == [[7] * 3] * 2
    (2 * p).sum().backward()
    assert p.grad.tolist() == [[3] * 3] * 2


def test_deepcopy_keeps_views_of_one_storage():
    flat = torch.zeros(6, device=GPU)
    flat_copy, view_copy = copy.deepcopy([flat, flat[2:]])
    flat_copy.fill_(1)
    assert view_copy.tolist() == [1] * 4 and flat.tolist() == [0] * 6


@pytest.mark.parametrize(
    "operation",
    [
        lambda x, i, m: torch.where(m, x, 0.5),
        lambda x, i, m: torch.where(m, x, x, out=torch.empty_like(x)),
        lambda x, i, m: torch.stack([x, x], out=x.new_empty(2, *x.shape)),
        lambda x, i, m: torch.cat([x, x[:1]]),
        lambda x, i, m: x.topk(2).values,
        lambda x, i, m: x.sort(1).indices,
        lambda x, i, m: x[i, i],
        lambda x, i, m: x.clone().index_put_((i, i), x[0, 0]),
        lambda x, i, m: x.clone().scatter_(1, i[None], 2.0),
        lambda x, i, m: x.gather(1, i[None]),
        lambda x, i, m: torch.searchsorted(x.sort(1).values, x),
        lambda x, i, m: x.unique(),
        lambda x, i, m: torch.bernoulli(x),
        lambda x, i, m: x.new_zeros(3) + torch.ones(()),
        lambda x, i, m: nn.functional.log_softmax(x, -1).exp().cumsum(0),
        lambda x, i, m: torch.rand_like(x),
        lambda x, i, m: x.clone().unsqueeze_(0).squeeze_(),
        lambda x, i, m: torch.randperm(9, device=x.device),
        lambda x, i, m: torch.arange(2, 9, device=x.device),
        lambda x, i, m: torch.linspace(0, 1, 7, device=x.device),
        lambda x, i, m: torch.as_tensor(np.arange(3.0), device=x.device),
        lambda x, i, m: torch.eye(3, device=x.device),
        lambda x, i, m: i.repeat_interleave(i),
        lambda x, i, m: torch.multinomial(x, 2),
    ],
)
def test_operations_equal_the_hosts(operation):
    x, i = torch.rand(3, 4), torch.tensor([2, 0, 1])
    found = []
    for device in ("cpu", "sim:1"):
        torch.manual_seed(1)
        y = operation(x.to(device), i.to(device), (x > 0.5).to(device))
        assert y.device == torch.device(device)
        found.append(y.cpu())
    assert torch.equal(*found)


def test_autograd_functions_and_hooks():
    class Twice(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * 2

        @staticmethod
        def backward(ctx, grad):
            assert ctx.saved_tensors[0].device == grad.device
            return grad * 2

    seen = []
    x = torch.ones(3, device=GPU, requires_grad=True)
    x.register_hook(lambda grad: seen.append(grad.device))
    x.register_post_accumulate_grad_hook(lambda x: seen.append(x.grad.device))
    Twice.apply(x).sum().backward()
    assert seen == [torch.device(GPU)] * 2 and x.grad.tolist() == [2] * 3


def test_backward_through_two_devices_and_the_host():
    x = torch.ones(3, device="sim:1", requires_grad=True)
    (x.to("sim:0") * 2).cpu().mul(3).sum().backward()
    assert x.grad.device == torch.device("sim:1") and x.grad.tolist() == [6] * 3


def test_custom_operators_run_on_the_host():
    @torch.library.custom_op("accel_rl_tests::add_one_", mutates_args={"x"})
    def add_one_(x: Tensor, y: Tensor) -> Tensor:
        assert x.device.type == y.device.type == "cpu"
        x.add_(1)
        return x + y

    x = torch.zeros(3, device="sim:1")
    y = add_one_(x, torch.ones_like(x))
    assert y.device == x.device and (x.tolist(), y.tolist()) == ([1] * 3, [2] * 3)


# -- devices ------------------------------------------------------------


@pytest.mark.parametrize("other", ["cpu", "sim:1"])
def test_devices_cannot_be_mixed(other):
    x, y = torch.ones(3, device=GPU), torch.ones(3, device=other)
    for mixed in (lambda: x + y, lambda: torch.stack([x, y]), lambda: x.add_(y), lambda: torch.add(x, x, out=y)):
        with pytest.raises(RuntimeError, match="Expected all tensors to be on the same device"):
            mixed()
    assert (x + torch.tensor(1.0)).tolist() == [2] * 3


def test_numpy_raises():
    x = torch.ones(3, device=GPU)
    for read in (x.numpy, lambda: np.asarray(x)):
        with pytest.raises(TypeError, match="copy the tensor to host"):
            read()


def test_current_device(gpu):
    assert gpu.current_device() == 0
    with gpu.device(1):
        assert torch.empty(1, device="sim").device == torch.ones(1).to("sim").device == torch.device("sim:1")
        with gpu.stream(gpu.Stream("sim:0")):
            assert gpu.current_device() == 0
        assert gpu.current_stream() is gpu.default_stream(1)
    with pytest.raises(RuntimeError, match="invalid device ordinal"):
        gpu.set_device(2)


def test_memory_is_counted(gpu):
    before = gpu.memory_allocated(1)
    x = torch.empty(1 << 20, dtype=torch.uint8, device="sim:1")
    view = x[3:]
    assert gpu.memory_allocated(1) - before == 1 << 20
    free, total = gpu.mem_get_info(1)
    assert total - free == gpu.memory_allocated(1) and total == gpu.get_device_properties(1).total_memory
    del x, view
    assert gpu.memory_allocated(1) == before and gpu.max_memory_allocated(1) >= before + (1 << 20)
    with pytest.raises(torch.OutOfMemoryError):
        torch.empty(total + 1, dtype=torch.uint8, device=GPU)


# -- random numbers ------------------------------------------------------------


def test_generators_draw_the_hosts_numbers():
    here, host = torch.Generator("sim:1").manual_seed(3), torch.Generator().manual_seed(3)
    assert here.device == torch.device("sim:1") and isinstance(here, torch.Generator)
    state = here.get_state()
    found = torch.rand(5, device="sim:1", generator=here)
    assert torch.equal(found.cpu(), torch.rand(5, generator=host))
    here.set_state(state)
    assert torch.equal(torch.empty(5, device="sim:1").uniform_(generator=here).cpu(), found.cpu())


@pytest.mark.parametrize("device", ["cpu", "sim:0"])
def test_generators_of_another_device_raise(device):
    with pytest.raises(RuntimeError, match="generator"):
        torch.rand(5, device="sim:1", generator=torch.Generator(device))


# -- waits ------------------------------------------------------------


@pytest.mark.parametrize(
    ("what", "read"),
    [
        ("item", lambda x, m: x[0].item()),
        ("item", lambda x, m: float(x[0])),
        ("item", lambda x, m: bool(x[0] > 0)),
        ("item", lambda x, m: f"{x[0]:.2f}"),
        ("tolist", lambda x, m: x.tolist()),
        ("repr", lambda x, m: repr(x)),
        ("nonzero", lambda x, m: m.nonzero()),
        ("nonzero", lambda x, m: torch.where(m)),
        ("boolean index", lambda x, m: x[m]),
        ("masked_select", lambda x, m: x.masked_select(m)),
        ("unique", lambda x, m: x.unique()),
        ("equal", lambda x, m: torch.equal(x, x)),
        ("repeat_interleave", lambda x, m: x.repeat_interleave(m.long())),
        ("index on the host", lambda x, m: x[torch.tensor([0, 1])]),
        ("copy to the host", lambda x, m: x.cpu()),
        ("copy to the host", lambda x, m: torch.empty(3).copy_(x)),
        ("copy to the host", lambda x, m: torch.empty(3).copy_(x, non_blocking=True)),
        ("copy to the device", lambda x, m: torch.ones(3).to("sim:0", non_blocking=True)),
        ("copy to the device", lambda x, m: x.copy_(page_locked(torch.ones(3)))),
        ("copy to the device", lambda x, m: torch.tensor([1, 2], device="sim:0")),
        ("Stream.synchronize", lambda x, m: torch.sim.current_stream().synchronize()),
        ("Event.synchronize", lambda x, m: torch.sim.current_stream().record_event().synchronize()),
        ("synchronize", lambda x, m: torch.sim.synchronize()),
        ("synchronize", lambda x, m: torch.accelerator.synchronize()),
    ],
)
def test_waits_are_counted_once(simulated_gpu, what, read):
    x, m = torch.ones(3, device=GPU), torch.ones(3, device=GPU) > 0
    with simulated_gpu.counting() as waits:
        read(x, m)
    assert kinds(waits) == {what: 1}


@pytest.mark.parametrize(
    "work",
    [
        lambda x: torch.zeros(3, device=x.device).fill_(2) + 1,
        lambda x: torch.arange(3, device=x.device),
        lambda x: x.__setitem__(0, 2.0),
        lambda x: x.__setitem__(x > 0, 2.0),
        lambda x: x[torch.zeros(2, dtype=torch.int64, device=x.device)],
        lambda x: x.repeat_interleave(torch.ones(3, dtype=torch.int64, device=x.device), output_size=3),
        lambda x: x.mul_(torch.tensor(2.0)).cumsum(0),
        lambda x: x.to("sim:1"),
        lambda x: x.copy_(page_locked(torch.ones(3)), non_blocking=True),
        lambda x: page_locked(torch.ones(3)).copy_(x, non_blocking=True),
        lambda x: torch.sim.current_stream().record_event().query(),
    ],
)
def test_what_a_gpu_does_alone_is_no_wait(simulated_gpu, work):
    x = torch.ones(3, device=GPU)
    with simulated_gpu.counting() as waits:
        work(x)
    assert not waits


def test_waits_of_all_threads_are_counted_by_line(simulated_gpu):
    def read():
        torch.zeros((), device=GPU).item()

    with simulated_gpu.counting() as waits:
        read()
        thread = threading.Thread(target=read)
        thread.start()
        thread.join()
    assert waits == {f"tests/test_simulated_device.py:{read.__code__.co_firstlineno + 1} item": 2}
    assert simulated_gpu.waits == waits


# -- asynchronous copies ------------------------------------------------------------


def test_an_early_read_sees_old_values(gpu):
    x, host = torch.ones(3, device=GPU), page_locked(torch.zeros(3))
    host.copy_(x, non_blocking=True)
    x.fill_(2)
    event = gpu.current_stream().record_event()
    assert host.tolist() == [0] * 3
    event.synchronize()
    assert host.tolist() == [1] * 3


@pytest.mark.parametrize("wait", ["query", "stream", "device", "item", "other stream", "query stream"])
def test_waiting_completes_a_copy(gpu, wait):
    x, host = torch.ones(3, device=GPU), page_locked(torch.zeros(3))
    host.copy_(x, non_blocking=True)
    event = gpu.current_stream().record_event()
    if wait == "query":
        assert not event.query() and host.tolist() == [0] * 3 and event.query()
    elif wait == "query stream":
        assert not gpu.current_stream().query() and host.tolist() == [0] * 3 and gpu.current_stream().query()
    elif wait == "stream":
        gpu.current_stream().synchronize()
    elif wait == "device":
        gpu.synchronize()
    elif wait == "item":
        x[0].item()
    else:
        (side := gpu.Stream()).wait_event(event)
        side.synchronize()
    assert host.tolist() == [1] * 3


def test_an_event_before_the_copy_and_another_stream_do_not_complete_it(gpu):
    x, host = torch.ones(3, device=GPU), page_locked(torch.zeros(3))
    event = gpu.current_stream().record_event()
    host.copy_(x, non_blocking=True)
    event.synchronize()
    gpu.Stream().synchronize()
    gpu.synchronize(1)
    assert host.tolist() == [0] * 3


def test_page_locks(gpu):
    host = torch.zeros(8192, dtype=torch.uint8)
    locked = PageLocked([host], gpu)
    x = torch.ones(8192, dtype=torch.uint8, device=GPU)
    host.copy_(x, non_blocking=True)
    assert host[0] == 0
    assert gpu.page_locks().register(host.data_ptr(), 10) != 0
    locked.close()
    host.copy_(x, non_blocking=True)
    assert host[0] == 1


# -- graphs ------------------------------------------------------------


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

    states = torch.get_rng_state(), generator.get_state()
    captured(gpu, step, generators=[generator])
    assert x.tolist() == [0] * 3 and out[0].isnan().all()
    assert torch.equal(states[0], torch.get_rng_state()) and torch.equal(states[1], generator.get_state())


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


# -- streams ------------------------------------------------------------


def test_an_unordered_access_raises(gpu):
    x = torch.zeros(3, device=GPU)
    with gpu.stream(gpu.Stream()), pytest.raises(RuntimeError) as error:
        x.sum()
    line = test_an_unordered_access_raises.__code__.co_firstlineno + 1
    read, written = (f"tests/test_simulated_device.py:{n} on stream" for n in (line + 2, line))
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
