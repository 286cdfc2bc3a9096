"""Search for good settings, as `accel-rl search` does."""

import sys

from accel_rl.sweeps.search_command import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
