"""Operations on the simulated device raise the same errors as on a GPU."""

import numpy as np
import pytest
import torch
from torch import nn

pytestmark = pytest.mark.usefixtures("simulated_gpu")
GPU = "sim:0"


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


def test_states_of_a_cpu_and_of_a_gpu_differ(gpu):
    for generator, state in (
        (torch.Generator("sim:0"), torch.get_rng_state()),
        (torch.Generator(), gpu.get_rng_state(0)),
        (torch.Generator("sim:0"), torch.zeros(16)),
    ):
        with pytest.raises((RuntimeError, TypeError), match=r"size|ByteTensor"):
            generator.set_state(state)


@pytest.mark.parametrize("device", ["cpu", "sim:0"])
def test_generators_of_another_device_raise(device):
    with pytest.raises(RuntimeError, match="generator"):
        torch.rand(5, device="sim:1", generator=torch.Generator(device))
