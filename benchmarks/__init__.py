"""Benchmarks against peers and ceilings: `python -m benchmarks.NAME`. benchmarks.harness is what they share."""

from accel_rl.system.process import before_torch

before_torch()
