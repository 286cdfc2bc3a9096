"""A watcher process reports in one line if its Gorila driver was killed."""

import signal
import subprocess
import sys

import pytest

DRIVER = """
import os, sys
from accel_rl.gorila.ray_session import watched

with watched():
    os.kill(os.getpid(), int(sys.argv[1]))
"""


@pytest.mark.parametrize(("number", "lines"), [(signal.SIGKILL, 1), (0, 0)])
def test_a_killed_driver_is_reported_in_a_line(number, lines):
    driver = subprocess.Popen([sys.executable, "-c", DRIVER, str(int(number))], stderr=subprocess.PIPE, text=True)
    _, err = driver.communicate(timeout=60)  # waits for the watcher
    assert driver.returncode == -number
    assert len(err.splitlines()) == lines
    if lines:
        assert err.startswith(f"accel-rl: the run's process {driver.pid} was killed, or Ray ended it")
