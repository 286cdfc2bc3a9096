"""A2C that loops for ever in one process of the run as soon as a file exists."""

import contextlib
import os
from pathlib import Path

from accel_rl.algos.a2c import A2C

LOOPS = "TEST_LOOPS"


class Loops(A2C):
    def loss(self, batch):
        with contextlib.suppress(FileNotFoundError):
            Path(os.environ[LOOPS]).unlink()
            while True:
                pass
        return super().loss(batch)
