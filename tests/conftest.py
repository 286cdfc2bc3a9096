"""Fixtures of all tests."""

import pytest
import torch


@pytest.fixture(autouse=True)
def same_numbers():
    """Seed torch: with random initial networks a ReLU is, now and then, so near 0 that the order of sums matters."""
    torch.manual_seed(0)
