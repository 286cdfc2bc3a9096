"""The console script accel-rl, one file a command."""
