"""Adam with and without torch's private fused operation."""

import pytest
import torch

from accel_rl.optim import optimizers
from accel_rl.optim.optimizers import Adam
from accel_rl.text import notes


@pytest.mark.parametrize("epsilon_hat", [False, True])
def test_steps_through_torch_optim_are_equal_bit_for_bit(monkeypatch, epsilon_hat):
    generator = torch.Generator().manual_seed(0)
    start = torch.randn(1000, generator=generator)
    gradients = torch.randn(5, 1000, generator=generator)

    def trained():
        data, adam = start.clone(), Adam(1000, epsilon_hat=epsilon_hat)
        for gradient in gradients:
            adam.step(data, gradient, 1e-2)
        return data

    fused = trained()
    monkeypatch.setattr(optimizers, "FUSED_ADAM", None)
    monkeypatch.setattr(notes, "_said", set())
    with pytest.warns(UserWarning, match="torch has no _fused_adam_"):
        assert torch.equal(trained(), fused)
