"""Search for good settings, as `accel-rl search` does."""

import sys

from accel_rl.sweeps.search_command import search
from accel_rl.text.errors import ended

if __name__ == "__main__":
    sys.exit(ended("accel-rl search", search, sys.argv[1:]))
