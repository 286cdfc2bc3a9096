"""Print the state of a sweep, as `accel-rl status` does."""

import sys

from accel_rl.sweeps.sweep_display import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
