"""The programs of this folder are for a checkout, such as `python -m launch.sweep`, which is the same as `accel-rl
sweep`."""
