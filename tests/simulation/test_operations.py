"""The simulated device computes what the host does, and raises what a GPU raises."""

import copy
import os
import subprocess
import sys

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from accel_rl.machine import devices
from accel_rl.optim.flat import FlatParameters
from accel_rl.optim.optimizers import Adam

pytestmark = pytest.mark.usefixtures("simulated_gpu")
GPU = "sim:0"


# -- presence ------------------------------------------------------------


def test_is_the_accelerator(gpu):
    assert devices.gpu_type() == "sim" and torch.accelerator.device_count() == gpu.device_count() == 2
    assert devices.runtime("sim:1") is gpu is torch.sim
    assert torch.accelerator.current_accelerator() == torch.device("sim")


def test_is_absent_outside():
    code = """
from tests import simulated_device
simulated_device.install()
from accel_rl.machine import devices
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
    torch.manual_seed(1)  # the host has drawn the model's parameters
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
        torch.manual_seed(1)
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


DRAWS = {
    "float64": lambda **to: torch.rand(700, dtype=torch.float64, **to),
    "integers": lambda **to: torch.randint(2**62, (3,), **to),
    "a permutation": lambda **to: torch.randperm(1_001, **to),
    "few normal numbers": lambda **to: torch.randn(4, **to),
    "normal numbers": lambda **to: torch.randn(100, **to),
    "a low bound": lambda **to: torch.randint(3, 9, (5,), **to),
}


def test_generators_draw_the_hosts_numbers():
    here, host = torch.Generator("sim:1").manual_seed(3), torch.Generator().manual_seed(3)
    assert here.device == torch.device("sim:1") and isinstance(here, torch.Generator)
    for draw in DRAWS.values():
        assert torch.equal(draw(device="sim:1", generator=here).cpu(), draw(generator=host))
    assert torch.equal(torch.empty(5, device="sim:1").uniform_(generator=here).cpu(), torch.rand(5, generator=host))


@pytest.mark.parametrize("draw", DRAWS.values(), ids=DRAWS)
@pytest.mark.parametrize("has_own", [True, False])
def test_a_generator_continues_from_a_seed_and_an_offset(gpu, draw, has_own):
    """A state has 16 bytes, as on CUDA, and another generator continues from the state."""
    own = {"generator": torch.Generator("sim:1").manual_seed(3)} if has_own else {}
    generator = own.get("generator", gpu.default_generators[1])
    for _ in range(3):
        draw(device="sim:1", **own)
    state = generator.get_state()
    assert state.shape == (16,) and state.dtype == torch.uint8 and state.device.type == "cpu"
    seed, offset = state.view(torch.int64).tolist()
    assert seed == generator.initial_seed() and offset == generator.get_offset() > 0 and offset % 4 == 0
    assert torch.equal(gpu.get_rng_state("sim:1"), state) != has_own
    later = [draw(device="sim:1", **own).cpu() for _ in range(3)]
    other = torch.Generator("sim:1")
    other.set_state(state)
    for numbers in later:
        assert torch.equal(draw(device="sim:1", generator=other).cpu(), numbers)
    assert torch.equal(other.get_state(), generator.get_state())


def test_states_of_a_cpu_and_of_a_gpu_differ(gpu):
    for generator, state in (
        (torch.Generator("sim:0"), torch.get_rng_state()),
        (torch.Generator(), gpu.get_rng_state(0)),
        (torch.Generator("sim:0"), torch.zeros(16)),
    ):
        with pytest.raises((RuntimeError, TypeError), match=r"size|ByteTensor"):
            generator.set_state(state)


def test_each_device_has_a_default_generator(gpu):
    torch.manual_seed(7)
    host, states = torch.get_rng_state(), [gpu.get_rng_state(i) for i in range(2)]
    numbers = torch.rand(4, device="sim:0")
    assert torch.equal(torch.get_rng_state(), host) and torch.equal(gpu.get_rng_state(1), states[1])
    assert not torch.equal(gpu.get_rng_state(0), states[0])
    assert torch.equal(torch.rand(4, device="sim:1").cpu(), numbers.cpu())  # the same seed


@pytest.mark.parametrize("device", ["cpu", "sim:0"])
def test_generators_of_another_device_raise(device):
    with pytest.raises(RuntimeError, match="generator"):
        torch.rand(5, device="sim:1", generator=torch.Generator(device))
