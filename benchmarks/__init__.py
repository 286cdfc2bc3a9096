"""Benchmarks against peers and ceilings: `python -m benchmarks.NAME`. Their common code is in benchmarks.harness."""

from accel_rl.system.process import before_torch

before_torch()
