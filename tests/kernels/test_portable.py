"""The portable kernels compute the same results on this CPU as on other CPUs (portable.py)."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("accel_rl.kernels._native")

ROOT = Path(__file__).parents[2]


def test_the_hash_is_that_of_other_machines():
    command = [sys.executable, str(ROOT / "tests/kernels/portable.py")]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, env=environment, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
