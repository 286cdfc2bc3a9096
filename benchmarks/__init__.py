"""Each benchmark compares accel_rl with other libraries and with upper bounds: `python -m benchmarks.NAME`."""

from accel_rl.processes.process import before_torch

before_torch()
