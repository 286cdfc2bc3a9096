"""Each benchmark compares accel_rl with peers and upper bounds: `python -m benchmarks.NAME`. The common code of the
benchmarks is in benchmarks.harness."""

from accel_rl.system.process import before_torch

before_torch()
