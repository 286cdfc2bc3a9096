"""Each benchmark compares accel_rl with peers and upper bounds: `python -m benchmarks.NAME`."""

from accel_rl.processes.process import before_torch

before_torch()
