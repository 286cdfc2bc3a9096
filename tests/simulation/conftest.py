"""Fixtures of the tests of the simulated device."""

import pytest
import torch


@pytest.fixture
def gpu(simulated_gpu):
    """The device type's module, such as torch.cuda."""
    return torch.get_device_module("sim")
