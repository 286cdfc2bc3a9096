"""Run a grid of runs: the same as `accel-rl sweep`."""

import sys

from accel_rl.sweeps.sweep_command import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
