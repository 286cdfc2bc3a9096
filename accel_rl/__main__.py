import sys

from accel_rl.cli.main import main

sys.exit(main())
