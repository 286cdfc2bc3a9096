"""Run a grid of runs, as `accel-rl sweep` does."""

import sys

from accel_rl.cli.sweep import main
from accel_rl.text.errors import ended

if __name__ == "__main__":
    sys.exit(ended("accel-rl sweep", main, sys.argv[1:]))
