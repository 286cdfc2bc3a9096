"""Optimizers of torch.optim over flat parameters: their steps are torch's, skipped updates change nothing."""

import pytest
import torch

from accel_rl.optim.torch_optimizer import TorchOptimizer

CLASSES = [
    (torch.optim.RAdam, {"eps": 1e-6}), (torch.optim.NAdam, {}), (torch.optim.Adamax, {}), (torch.optim.AdamW, {}),
    (torch.optim.SGD, {"momentum": 0.9}), (torch.optim.Adagrad, {"initial_accumulator_value": 0.1}),
]  # fmt: skip


@pytest.mark.parametrize(("cls", "options"), CLASSES, ids=lambda x: x.__name__ if isinstance(x, type) else "")
def test_steps_are_torchs_also_after_a_reload(cls, options):
    start = torch.randn(20)
    theirs = torch.nn.Parameter(start.clone())
    torchs, ours, data = cls([theirs], lr=0.1, **options), TorchOptimizer(cls, 20, **options), start.clone()
    for i in range(8):
        grad = torch.randn(20)
        theirs.grad = grad.clone()
        torchs.param_groups[0]["lr"] = 0.1 / (i + 1)
        torchs.step()
        ours.step(data, grad, 0.1 / (i + 1))
        torch.testing.assert_close(data, theirs.detach(), rtol=0, atol=0)
        if i == 3:
            state = {n: x.clone() if isinstance(x, torch.Tensor) else x for n, x in ours.state_dict().items()}
            ours = TorchOptimizer(cls, 20, **options)
            ours.load_state_dict(state)


def test_a_skipped_update_changes_nothing(simulated_gpu):
    device = "sim:0"
    rate = torch.full((), 0.1, device=device)
    data, grad = torch.ones(5, device=device), torch.ones(5, device=device)
    optimizer = TorchOptimizer(torch.optim.RAdam, 5, device)
    optimizer.step(data, grad, rate, torch.ones((), dtype=torch.bool, device=device))
    before = data.cpu(), optimizer.state_dict()["step"]
    with simulated_gpu.counting() as waits:
        optimizer.step(data, torch.zeros_like(grad), rate, torch.zeros((), dtype=torch.bool, device=device))
    assert not waits and torch.equal(data.cpu(), before[0]) and optimizer.state_dict()["step"] == before[1]


def test_an_optimizer_of_another_kind_is_refused():
    with pytest.raises(ValueError, match="LBFGS"):
        TorchOptimizer(torch.optim.LBFGS, 5)
