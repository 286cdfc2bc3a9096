"""`accel-rl tune`: measures a training run and its parts on this machine, and finds the fastest placement."""
