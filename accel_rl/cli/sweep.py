"""The command accel-rl sweep runs, resumes and pauses sweeps."""

import time
from pathlib import Path

from accel_rl.sweeps import pause

PAUSES = {"--pause": pause.pause, "--unpause": pause.unpause}


def main(argv: list[str]) -> int:
    """Return the exit code: 0 done, 1 a run failed, 130 stopped by Ctrl-C. Raises ConfigError.

    `--pause` and `--unpause` do not import torch, which takes seconds.
    """
    if len(argv) == 2 and argv[0] in PAUSES and argv[1]:
        print(PAUSES[argv[0]](Path(argv[1]).expanduser()), flush=True)
        return 0
    began = time.time()  # The time limit --minutes includes the time of the imports.
    from accel_rl.sweeps.sweep_command import sweep

    return sweep(argv, began)
