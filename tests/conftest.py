"""Fixtures of all tests."""

import pytest
import torch


@pytest.fixture(autouse=True)
def same_numbers():
    """Seed torch: with random initial networks a ReLU is, now and then, so near 0 that the order of sums matters."""
    torch.manual_seed(0)


@pytest.fixture
def simulated_gpu():
    """Simulated GPUs `sim:0` and `sim:1`, here and in child processes; `torch.accelerator` finds them.

    Yields the package `tests.simulated_device`.
    """
    from tests import simulated_device

    simulated_device.install()
    with simulated_device.present(), simulated_device.child_processes():
        simulated_device.reset()
        yield simulated_device
        simulated_device.reset()
