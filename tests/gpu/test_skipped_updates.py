"""Updates with non-finite losses or gradients are skipped and counted on the GPU, without a wait of the host.

Many skipped updates end the run.
"""

from typing import get_args

import pytest
import torch

from accel_rl.algos.a2c import A2C
from accel_rl.distributed.gradient_sync import Local
from accel_rl.distributed.guarded_step import GuardedStep
from accel_rl.optim.flat import FlatParameters
from accel_rl.optim.optimizers import OptimizerName, make_optimizer
from accel_rl.text.errors import RunError
from tests.golden.runs import POLE, config
from tests.gpu.runs import GPU, build, cycles
from tests.marks import slow


class Spoiled(A2C):
    """A2C whose loss is multiplied by the GPU tensor `factor`."""

    def __init__(self, *args, **options):
        super().__init__(*args, **options)
        self.factor = torch.ones((), device=self.device)

    def loss(self, batch):
        loss = super().loss(batch)
        loss.total = loss.total * self.factor
        return loss


@pytest.fixture
def trainer(simulated_gpu, tmp_path):
    run = config("tests.gpu.test_skipped_updates:Spoiled", POLE)
    built = build(run, GPU, tmp_path / "run")
    built.reporter.open(0, 0)
    yield built
    built._close()


@pytest.mark.parametrize("captured", [False, True])
def test_it_is_skipped_and_counted_without_waiting(trainer, simulated_gpu, captured):
    cycles(trainer, 8 if captured else 1)
    learner = trainer.learner
    assert bool(learner._captured.updates._captures) == captured
    before, sync = learner.flat.data.cpu(), learner.gradient_sync
    square = sync.guarded.optimizer.square.cpu()
    learner.algo.factor.fill_(float("nan"))
    _, waits, _ = cycles(trainer, 2)
    assert {place.split(":")[0] for place in waits[-1]} <= {
        "accel_rl/samplers/inference/device_rollouts.py", "accel_rl/speed/cuda_graph.py",
    }  # fmt: skip
    assert torch.equal(learner.flat.data.cpu(), before) and torch.equal(sync.guarded.optimizer.square.cpu(), square)
    assert (sync.skips.total, sync.skips.in_a_row) == (2, 2)
    learner.algo.factor.fill_(1.0)
    cycles(trainer, 1)
    assert (sync.skips.total, sync.skips.in_a_row) == (2, 0)
    assert not torch.equal(learner.flat.data.cpu(), before) and learner.flat.data.cpu().isfinite().all()


def test_many_in_a_row_end_the_run(trainer):
    trainer.learner.algo.factor.fill_(float("inf"))
    with pytest.raises(RunError, match=r"2\d updates in a row"):
        cycles(trainer, 30)


@pytest.mark.parametrize("name", get_args(OptimizerName) or ["adam"])
def test_no_optimizer_changes_anything(simulated_gpu, name):
    torch.manual_seed(0)
    net = torch.nn.Linear(8, 8).to(GPU)
    flat = FlatParameters(net)
    optimizer = make_optimizer(name, len(flat.data), alpha=0.9, epsilon=1e-3, device=GPU)
    sync, rate = Local(GuardedStep(flat, optimizer, 0.5)), torch.full((), 0.1, device=GPU)

    def update(factor):
        x = torch.randn(4, 8).to(GPU)
        loss = net(x).square().mean() * factor
        sync.backward(loss)
        sync.step(rate, loss.detach())

    def state():
        found = {n: x.cpu().clone() if isinstance(x, torch.Tensor) else x for n, x in optimizer.state_dict().items()}
        return {**found, "parameters": flat.data.cpu().clone()}

    update(1.0)
    before = state()
    update(float("nan"))
    after = state()
    assert all(torch.equal(before[n], after[n]) if n != "steps" else before[n] == after[n] for n in before)
    update(1.0)
    assert not torch.equal(state()["parameters"], before["parameters"]) and sync.skips.total == 1


@pytest.mark.parametrize("steps", [slow(0), 32_210, slow(10**6)])
@pytest.mark.parametrize("name", get_args(OptimizerName))
def test_every_optimizer_steps_as_on_the_cpu(simulated_gpu, name, steps):
    g = torch.Generator().manual_seed(0)
    start, grads = torch.randn(50, generator=g), [torch.randn(50, generator=g) for _ in range(12)]
    here = make_optimizer(name, 50, alpha=0.9, epsilon=1e-3)
    there = make_optimizer(name, 50, alpha=0.9, epsilon=1e-3, device=GPU)
    if hasattr(here, "steps"):
        here.steps = there.steps = steps
    ours, theirs = start.clone(), start.to(GPU)
    rate, finite = torch.full((), 0.01, device=GPU), torch.ones((), dtype=torch.bool, device=GPU)
    for grad in grads:
        here.step(ours, grad, 0.01)
        there.step(theirs, grad.to(GPU), rate, finite)
    torch.testing.assert_close(ours, theirs.cpu(), atol=1e-6, rtol=1e-5)
    there.load_state_dict(here.state_dict())  # Load the CPU's optimizer state on the GPU, and vice versa.
    here.load_state_dict({n: x.cpu() if isinstance(x, torch.Tensor) else x for n, x in there.state_dict().items()})
