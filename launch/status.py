"""Print the state of a sweep: the same as `accel-rl status`."""

import sys

from accel_rl.sweeps.sweep_display import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
