"""Fixtures of the replays' tests."""

import pytest

from tests import simulated_device


@pytest.fixture
def simulated_gpu():
    """A device that behaves as a GPU does."""
    simulated_device.reset()
    with simulated_device.present():
        yield "sim:0"
    simulated_device.reset()
