"""Run a grid of runs, as `accel-rl sweep` does."""

import sys

from accel_rl.sweeps.sweep_command import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
