"""Fixtures of the tests of the simulated device."""

import pytest
import torch


@pytest.fixture
def gpu(simulated_gpu):
    """The module `torch.sim`, which corresponds to torch.cuda."""
    return torch.get_device_module("sim")
