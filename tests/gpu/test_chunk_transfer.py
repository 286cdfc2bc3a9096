"""Learners on a simulated GPU that share locked chunks compute the results of learners on the CPU. The host waits for
the GPU once per chunk of the parameters that is written."""

import os

import pytest
import torch

from accel_rl.distributed.central import Central
from accel_rl.distributed.locked_chunk import LockedChunks
from accel_rl.distributed.multi_step_adam import MultiStepAdam
from accel_rl.optim.flat import FlatParameters
from accel_rl.optim.optimizers import make_optimizer

CHUNKS = 3


def learners(cls, optimizer, device, n=2):
    """Build n learners in this process that share central parameters, and return their gradient syncs."""
    built, fd = [], os.memfd_create("central")
    for rank in range(n):
        torch.manual_seed(0)
        net = torch.nn.Sequential(torch.nn.Linear(64, 32), torch.nn.Tanh(), torch.nn.Linear(32, 8)).to(device)
        make = lambda size: make_optimizer(optimizer, size, alpha=0.9, epsilon=1e-4, device=device)  # noqa: E731
        sync = cls(FlatParameters(net), make, 0.5, CHUNKS, rank)
        sync.connect(Central(sync.parts, sync.states(), fd, create=rank == 0), publish=rank == 0)
        built.append((net, sync))
    return built


def train(built, device, updates=6):
    g = torch.Generator().manual_seed(1)
    for i in range(updates):
        net, sync = built[i % len(built)]
        sync.pull()
        x = torch.randn(16, 64, generator=g).to(device)
        loss = net(x).square().mean()
        sync.backward(loss)
        sync.step(0.01, loss.detach())
    sync = built[0][1]
    return torch.cat([sync.central.read(k)[0].clone() for k in range(len(sync.parts))])


@pytest.mark.parametrize(
    ("cls", "optimizer"),
    [(LockedChunks, "rmsprop"), (LockedChunks, "adam"), (LockedChunks, "adam-epsilon-hat"), (MultiStepAdam, "adam")],
)
def test_it_equals_the_cpu(simulated_gpu, cls, optimizer):
    here, there = (train(learners(cls, optimizer, d), d, 8) for d in ("cpu", "sim:0"))
    torch.testing.assert_close(here, there, atol=1e-6, rtol=1e-4)


def test_it_waits_once_for_each_chunk_that_is_written(simulated_gpu):
    built = learners(LockedChunks, "adam", "sim:0")
    train(built, "sim:0", 2)
    net, sync = built[0]
    x = torch.randn(16, 64).to("sim:0")
    with simulated_gpu.counting() as waits:
        sync.pull()
        loss = net(x).square().mean()
        sync.backward(loss)
        sync.step(0.01, loss.detach())
    assert sum(waits.values()) <= len(sync.parts), waits
    assert set(w.split(":")[0] for w in waits) == {"accel_rl/distributed/chunk_transfer.py"}


def test_a_gradient_that_is_not_finite_is_not_written(simulated_gpu):
    built = learners(LockedChunks, "adam", "sim:0", 1)
    before = train(built, "sim:0", 3)
    net, sync = built[0]
    sync.backward(net(torch.ones(2, 64).to("sim:0")).sum() * float("nan"))
    sync.step(0.01, torch.zeros((), device="sim:0"))
    after = torch.cat([sync.central.read(k)[0].clone() for k in range(len(sync.parts))])
    assert torch.equal(before, after) and sync.skips.total == 1
    assert torch.equal(sync.flat.data.cpu(), before)
